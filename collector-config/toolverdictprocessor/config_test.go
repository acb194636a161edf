// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/acrux-otel/acrux-otel/collector-config/toolverdictprocessor/internal/metadata"
)

func load(t *testing.T, name string) (component.Config, error) {
	t.Helper()
	file, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := file.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := createDefaultConfig()
	if err := sub.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

// Options that are left out have the defaults; the others are what was given.
func TestConfigsLoad(t *testing.T) {
	cfg, err := load(t, "")
	require.NoError(t, err)
	assert.Equal(t, createDefaultConfig(), cfg)

	cfg, err = load(t, "all")
	require.NoError(t, err)
	assert.Equal(t, &Config{
		Normalise: true, OverrideOK: true, MaxContentBytes: 4096, Rollup: true, MarkRoot: true,
		WaitDuration: 90 * time.Second, Storm: StormConfig{CallsPerTool: 50, IdenticalCalls: 0},
	}, cfg)
}

// A value that cannot be meant is refused in one line that names the field, the value and what was expected.
func TestBadConfigsAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"idle":          "normalise and rollup are both false; expected one of them true: with neither, leave the processor out",
		"negative_size": "max_content_bytes is -1; expected 0 (look into no content) to 16777216",
		"huge_size":     "max_content_bytes is 99999999; expected 0 (look into no content) to 16777216",
		"lone_mark":     "mark_root is true and rollup is false; expected rollup: true, which is what finds the root",
		"lone_override": "override_ok is true and normalise is false; expected normalise: true, which is what writes statuses",
		"negative_wait": "wait_duration is -1s; expected 0s (not known) or 1ms to 24h0m0s, with its unit: groupbytrace's own wait_duration",
		"no_unit":       "wait_duration is 120ns; expected 0s (not known) or 1ms to 24h0m0s, with its unit: groupbytrace's own wait_duration",
		"storm_of_one":  "storm::calls_per_tool is 1; expected 0 (off) or 2 to 1000000 calls",
		"storm_below":   "storm::identical_calls is -5; expected 0 (off) or 2 to 1000000 calls",
		"misspelt":      "has invalid keys: mark_roots",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, name)
			require.ErrorContains(t, err, want)
		})
	}
}

// The README's table has every option with its default, in the order of Config, and no other.
func TestTheREADMEHasEveryOption(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(readme), "\n## Options\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	var told []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		told = append(told, row[1]+"="+row[2])
	}
	assert.Equal(t, options("", reflect.ValueOf(createDefaultConfig()).Elem()), told)
}

// options lists `name=default` of a config's fields, those of a struct within it by `outer::inner`.
func options(prefix string, config reflect.Value) []string {
	var listed []string
	for i := range config.NumField() {
		name := config.Type().Field(i).Tag.Get("mapstructure")
		switch value := config.Field(i); {
		case name == "":
		case value.Kind() == reflect.Struct:
			listed = append(listed, options(prefix+name+"::", value)...)
		default:
			listed = append(listed, fmt.Sprintf("%s%s=%v", prefix, name, value.Interface()))
		}
	}
	return listed
}

// Several mistakes are told at once, one line each.
func TestAllMistakesAreTold(t *testing.T) {
	cfg := defaults()
	cfg.MaxContentBytes, cfg.WaitDuration = -1, -1
	assert.Len(t, strings.Split(cfg.Validate().Error(), "\n"), 2)
}
