// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/acrux-otel/acrux-otel/collector-config/toolverdictprocessor/internal/metadata"
)

type attrs map[string]any

// sp describes one span of a test; times are milliseconds after the trace's start.
type sp struct {
	name       string
	id, parent uint64
	from, to   int64
	scope      string
	kind       ptrace.SpanKind
	status     ptrace.StatusCode
	message    string
	attributes attrs
	exceptions []attrs
}

const epoch = 1_790_000_000_000_000_000

func traceOf(spans ...sp) ptrace.Traces { return traceWithID(1, spans...) }

func traceWithID(trace uint64, spans ...sp) ptrace.Traces {
	td := ptrace.NewTraces()
	resource := td.ResourceSpans().AppendEmpty()
	for i, s := range spans {
		if s.scope == "" {
			s.scope = "test"
		}
		var scope ptrace.ScopeSpans
		if n := resource.ScopeSpans().Len(); n > 0 && resource.ScopeSpans().At(n-1).Scope().Name() == s.scope {
			scope = resource.ScopeSpans().At(n - 1)
		} else {
			scope = resource.ScopeSpans().AppendEmpty()
			scope.Scope().SetName(s.scope)
		}
		if s.id == 0 {
			s.id = uint64(i) + 1
		}
		if s.to == 0 {
			s.to = s.from + 1
		}
		s.write(scope.Spans().AppendEmpty(), trace)
	}
	return td
}

func (s sp) write(span ptrace.Span, trace uint64) {
	var traceID pcommon.TraceID
	binary.BigEndian.PutUint64(traceID[8:], trace)
	span.SetTraceID(traceID)
	span.SetSpanID(spanID(s.id))
	span.SetParentSpanID(spanID(s.parent))
	span.SetName(s.name)
	span.SetKind(s.kind)
	span.SetStartTimestamp(pcommon.Timestamp(epoch + s.from*int64(time.Millisecond)))
	span.SetEndTimestamp(pcommon.Timestamp(epoch + s.to*int64(time.Millisecond)))
	span.Status().SetCode(s.status)
	span.Status().SetMessage(s.message)
	must(span.Attributes().FromRaw(s.attributes))
	for _, of := range s.exceptions {
		event := span.Events().AppendEmpty()
		event.SetName("exception")
		must(event.Attributes().FromRaw(of))
	}
}

func spanID(n uint64) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], n)
	return id
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// with returns a copy of m with more.
func (m attrs) with(more attrs) attrs {
	out := attrs{}
	for k, v := range m {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func defaults() *Config { return createDefaultConfig().(*Config) }

// run sends traces through the processor as a collector would, and returns what came out.
func run(t testing.TB, cfg *Config, td ptrace.Traces) ptrace.Traces {
	t.Helper()
	sink := new(consumertest.TracesSink)
	p, err := NewFactory().CreateTraces(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, sink)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background(), componenttest.NewNopHost()))
	require.NoError(t, p.ConsumeTraces(context.Background(), td))
	require.NoError(t, p.Shutdown(context.Background()))
	require.Len(t, sink.AllTraces(), 1)
	return sink.AllTraces()[0]
}

// spansOf are the spans of traces, as they stand.
func spansOf(td ptrace.Traces) []ptrace.Span {
	var out []ptrace.Span
	for _, resource := range td.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				out = append(out, span)
			}
		}
	}
	return out
}

// judge runs one foreign tool span alone and returns it.
func judge(t testing.TB, s sp) ptrace.Span {
	t.Helper()
	cfg := defaults()
	cfg.Rollup = false
	return spansOf(run(t, cfg, traceOf(s)))[0]
}

// get is an attribute as a plain value, nil where there is none.
func get(span ptrace.Span, key string) any {
	value, ok := span.Attributes().Get(key)
	if !ok {
		return nil
	}
	return value.AsRaw()
}

// kindOf is the verdict on a span in short: outcome, errorType and errorCode.
func kindOf(span ptrace.Span) [3]any {
	return [3]any{get(span, attrOutcome), get(span, attrErrorType), get(span, attrErrorCode)}
}

var (
	noVerdict = [3]any{nil, nil, nil}
	okVerdict = [3]any{"ok", nil, nil}
)

func failed(errorType, errorCode string) [3]any { return [3]any{"error", errorType, errorCode} }

// A tool span of each source.
var (
	openinference = attrs{"openinference.span.kind": "TOOL", "tool.name": "search"}
	traceloop     = attrs{"traceloop.span.kind": "tool", "traceloop.entity.name": "search"}
	genai         = attrs{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
	mcp           = attrs{"mcp.method.name": "tools/call", "gen_ai.tool.name": "search"}
)

// acrux is a tool span as our own SDK writes it.
func acrux(tool, outcome string, more attrs) attrs {
	return attrs{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "acrux.tool.outcome": outcome,
	}.with(more)
}

const (
	statusUnset = ptrace.StatusCodeUnset
	statusOK    = ptrace.StatusCodeOk
	statusError = ptrace.StatusCodeError
)

// newForTest is the processor without the collector's wrapping.
func newForTest(t testing.TB, cfg *Config) *toolVerdict {
	t.Helper()
	p, err := newToolVerdict(componenttest.NewNopTelemetrySettings(), cfg)
	require.NoError(t, err)
	return p
}
