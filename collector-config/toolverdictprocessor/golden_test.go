// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

var update = flag.Bool("update", false, "write testdata/*.out.json anew")

// Whole traces in, whole traces out: what real instrumentations write, and what our SDK writes.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob(filepath.Join("testdata", "*.in.json"))
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, in := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.json"), func(t *testing.T) {
			data, err := os.ReadFile(in)
			require.NoError(t, err)
			td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(data)
			require.NoError(t, err)
			got, err := (&ptrace.JSONMarshaler{}).MarshalTraces(run(t, defaults(), td))
			require.NoError(t, err)
			out := strings.TrimSuffix(in, ".in.json") + ".out.json"
			if *update {
				var pretty bytes.Buffer
				require.NoError(t, json.Indent(&pretty, got, "", "  "))
				require.NoError(t, os.WriteFile(out, append(pretty.Bytes(), '\n'), 0o600))
			}
			want, err := os.ReadFile(out)
			require.NoError(t, err)
			assert.JSONEq(t, string(want), string(got))
		})
	}
}
