// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// identity is what no processing may change of a span.
type identity struct {
	trace  pcommon.TraceID
	id     pcommon.SpanID
	parent pcommon.SpanID
	name   string
	start  pcommon.Timestamp
	end    pcommon.Timestamp
	events int
}

func identities(td ptrace.Traces) []identity {
	var out []identity
	for _, s := range spansOf(td) {
		out = append(out, identity{
			s.TraceID(), s.SpanID(), s.ParentSpanID(), s.Name(), s.StartTimestamp(), s.EndTimestamp(), s.Events().Len(),
		})
	}
	return out
}

// checkAny runs any traces whatever and checks what must hold for all: nothing is lost or changed but
// attributes and statuses, an explicit OK stays, what is written is bounded and of its type, and a second
// run changes nothing.
func checkAny(t *testing.T, p *toolVerdict, td ptrace.Traces) {
	t.Helper()
	before := identities(td)
	foreign := make([]bool, len(before))
	statuses := make([]ptrace.StatusCode, len(before))
	for i, s := range spansOf(td) {
		statuses[i] = s.Status().Code()
		_, carries := s.Attributes().Get(attrOutcome)
		foreign[i] = !carries
	}
	out, err := p.process(t.Context(), td)
	require.NoError(t, err)
	require.Equal(t, before, identities(out))
	for i, s := range spansOf(out) {
		if statuses[i] != statusUnset {
			assert.Equal(t, statuses[i], s.Status().Code())
		}
		if from, ok := s.Attributes().Get(attrNormalisedFrom); ok && foreign[i] {
			assert.NotEmpty(t, from.Str())
			checkVerdict(t, s)
		}
	}
	again := ptrace.NewTraces()
	out.CopyTo(again)
	again, err = p.process(t.Context(), again)
	require.NoError(t, err)
	assert.Equal(t, out, again)
}

func checkVerdict(t *testing.T, s ptrace.Span) {
	t.Helper()
	outcome := parseOutcome(get(s, attrOutcome).(string))
	assert.NotEqual(t, outcomeNone, outcome)
	if outcome == outcomeError || outcome == outcomeWarning {
		assert.True(t, isErrorType(get(s, attrErrorType).(string)))
		code := get(s, attrErrorCode).(string)
		assert.Regexp(t, `^[a-z0-9_]{1,64}$`, code)
		detail := get(s, attrErrorDetail).(string)
		assert.LessOrEqual(t, len(detail), maxDetail)
	}
	if outcome == outcomeError {
		assert.NotEqual(t, statusUnset, s.Status().Code())
	}
}

func fuzzed(t testing.TB) *toolVerdict {
	t.Helper()
	cfg := defaults()
	cfg.MarkRoot = true
	return newForTest(t, cfg)
}

// FuzzNormalise feeds whole OTLP requests, as they come off the wire, to the processor.
func FuzzNormalise(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.in.json"))
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(data)
		require.NoError(f, err)
		wire, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		require.NoError(f, err)
		f.Add(wire)
	}
	p := fuzzed(f)
	f.Fuzz(func(t *testing.T, wire []byte) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire)
		if err != nil || td.SpanCount() > 1000 {
			t.Skip()
		}
		checkAny(t, p, td)
	})
}

// FuzzRollup grows traces from bytes: few ids, so that duplicates, cycles, orphans and several roots are
// common, and every kind of span that a rule looks at.
func FuzzRollup(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 10, 2, 1, 3, 1, 5, 3, 2, 4, 2, 6})
	f.Add([]byte{1, 2, 5, 1, 1, 2, 1, 5, 2, 2, 3, 3, 6, 3, 3})
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaabacadabacada"))
	p := fuzzed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 5*200 {
			t.Skip()
		}
		checkAny(t, p, grow(data))
	})
}

// kinds are the spans that FuzzRollup chooses from.
var kinds = []attrs{
	nil,
	{"gen_ai.operation.name": "invoke_agent"},
	{"gen_ai.operation.name": "invoke_agent", attrTraceOutcome: "ok", attrCalls: int64(3), attrFailed: "x"},
	acrux("a", "ok", hash("h")),
	acrux("a", "error", hash("h").with(attrs{"errorType": "http_status", "errorCode": "http_404", "acrux.tool.retryable": false})),
	acrux("b", "not_executed", hash("h")),
	acrux("b", "warning", attrs{"acrux.tool.attempts": int64(-7)}),
	acrux("a", "nonsense", nil),
	openinference,
	mcp.with(attrs{"error.type": "tool_error"}),
	genai.with(attrs{"gen_ai.tool.name": "a", "gen_ai.tool.call.arguments": "{}"}),
	traceloop.with(attrs{"gen_ai.task.status": "failure", "gen_ai.tool.call.id": "c1"}),
	genai.with(attrs{"error.type": "CancelledError"}),
	openinference.with(attrs{"error.type": "GeneratorExit", "warning.type": "w"}),
	asks["genai"].with(answers["genai"]("c1")),
	{attrOutcome: int64(1), attrAttempts: "many", attrToolName: []any{}},
}

func grow(data []byte) ptrace.Traces {
	var spans []sp
	for ; len(data) >= 5; data = data[5:] {
		id, parent, kind, from, length := data[0], data[1], data[2], data[3], data[4]
		spans = append(spans, sp{
			name: "execute_tool a", id: uint64(id%16) + 1, parent: uint64(parent % 16),
			from: int64(from), to: int64(from) + int64(length) - 8,
			kind: ptrace.SpanKind(kind % 4), scope: []string{"x", "y"}[id%2], status: ptrace.StatusCode(length % 3),
			attributes: kinds[int(kind)%len(kinds)],
		})
	}
	td := traceOf(spans...)
	if len(spans) > 3 {
		other := traceWithID(2, spans[:len(spans)/2]...)
		other.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	}
	return td
}
