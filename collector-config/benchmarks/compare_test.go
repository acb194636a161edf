// SPDX-License-Identifier: Apache-2.0

// Package benchmarks sets toolverdict beside the stock parts of the collector: groupbytrace, which it runs
// behind, and the transform processor, which can normalise too. A module of its own, so that the
// processor's users do not get these dependencies.
package benchmarks

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/groupbytraceprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/transformprocessor"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/acrux-otel/acrux-otel/collector-config/toolverdictprocessor"
)

const (
	traces        = 100
	spansPerTrace = 60
)

// runOf is one agent run: its root, then in turn an HTTP call, a model call without content and a tool call,
// every fifth of which failed with an exception; under the GenAI conventions.
func runOf(trace int, into ptrace.SpanSlice) {
	for i := range spansPerTrace {
		span := into.AppendEmpty()
		span.SetTraceID(traceID(trace))
		span.SetSpanID(spanID(i + 1))
		span.SetStartTimestamp(pcommon.Timestamp(1_790_000_000_000_000_000 + i*1_000_000))
		span.SetEndTimestamp(span.StartTimestamp() + 900_000)
		a := span.Attributes()
		switch {
		case i == 0:
			span.SetName("invoke_agent a")
			span.SetEndTimestamp(span.StartTimestamp() + 60_000_000)
			a.PutStr("gen_ai.operation.name", "invoke_agent")
			a.PutStr("gen_ai.agent.name", "a")
			a.PutStr("session.id", "s-881")
			continue
		case i%3 == 1:
			span.SetName("POST")
			a.PutStr("http.request.method", "POST")
			a.PutStr("url.full", "https://api.example.com/v1/messages")
			a.PutStr("server.address", "api.example.com")
			a.PutInt("server.port", 443)
			a.PutStr("network.protocol.version", "1.1")
			a.PutInt("http.response.status_code", 200)
			a.PutStr("network.peer.address", "192.0.2.7")
			a.PutInt("network.peer.port", 443)
		case i%3 == 2:
			span.SetName("chat m-large")
			a.PutStr("gen_ai.operation.name", "chat")
			a.PutStr("gen_ai.provider.name", "openai")
			a.PutStr("gen_ai.request.model", "m-large")
			a.PutStr("gen_ai.response.model", "m-large-2")
			a.PutStr("gen_ai.response.id", "resp_0123456789")
			a.PutInt("gen_ai.usage.input_tokens", 2210)
			a.PutInt("gen_ai.usage.output_tokens", 95)
			a.PutStr("server.address", "api.example.com")
		default:
			tool(span, i)
		}
		span.SetParentSpanID(spanID(1))
	}
}

func tool(span ptrace.Span, i int) {
	a := span.Attributes()
	span.SetName("execute_tool search")
	a.PutStr("gen_ai.operation.name", "execute_tool")
	a.PutStr("gen_ai.tool.name", "search")
	a.PutStr("gen_ai.tool.type", "function")
	a.PutStr("gen_ai.tool.description", "Search the catalogue.")
	a.PutStr("gen_ai.tool.call.id", fmt.Sprintf("call_%d", i))
	a.PutStr("gen_ai.tool.call.arguments", fmt.Sprintf(`{"q": "oslo %d"}`, i))
	if i%5 != 0 {
		return
	}
	a.PutStr("error.type", "ReadTimeout")
	span.Status().SetCode(ptrace.StatusCodeError)
	span.Status().SetMessage("timed out")
	event := span.Events().AppendEmpty()
	event.SetName("exception")
	event.Attributes().PutStr("exception.type", "httpx.ReadTimeout")
	event.Attributes().PutStr("exception.message", "timed out")
	event.Attributes().PutStr("exception.stacktrace", strings.Repeat("  at x\n", 100))
}

func traceID(n int) (id pcommon.TraceID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
	return id
}

func spanID(n int) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// input is one request of each run, as an exporter sends them.
func input() []ptrace.Traces {
	out := make([]ptrace.Traces, traces)
	for trace := range out {
		td := ptrace.NewTraces()
		scope := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
		scope.Scope().SetName("agent")
		runOf(trace, scope.Spans())
		out[trace] = td
	}
	return out
}

// cpu is the processor time that this process used so far, whatever else the machine does.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// measure feeds copies of the input until b is satisfied and waits for every span to come out.
func measure(b *testing.B, arrived *atomic.Int64, first consumer.Traces) {
	b.Helper()
	template := input()
	var used time.Duration
	want := int64(0)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		requests := make([]ptrace.Traces, len(template))
		for i, td := range template {
			requests[i] = ptrace.NewTraces()
			td.CopyTo(requests[i])
			want += int64(td.SpanCount())
		}
		before := cpu(b)
		b.StartTimer()
		for _, td := range requests {
			require.NoError(b, first.ConsumeTraces(b.Context(), td))
		}
		for arrived.Load() < want {
			time.Sleep(50 * time.Microsecond)
		}
		b.StopTimer()
		used += cpu(b) - before
		b.StartTimer()
	}
	b.ReportMetric(float64(used.Nanoseconds())/float64(want), "cpu-ns/span")
}

func counter(b *testing.B) (*atomic.Int64, consumer.Traces) {
	var arrived atomic.Int64
	sink, err := consumer.NewTraces(func(_ context.Context, td ptrace.Traces) error {
		arrived.Add(int64(td.SpanCount()))
		return nil
	})
	require.NoError(b, err)
	return &arrived, sink
}

func start(b *testing.B, factory processor.Factory, settings map[string]any, next consumer.Traces) processor.Traces {
	b.Helper()
	cfg := factory.CreateDefaultConfig()
	require.NoError(b, confmap.NewFromStringMap(settings).Unmarshal(cfg))
	p, err := factory.CreateTraces(b.Context(), processortest.NewNopSettings(factory.Type()), cfg, next)
	require.NoError(b, err)
	require.NoError(b, p.Start(b.Context(), componenttest.NewNopHost()))
	b.Cleanup(func() { require.NoError(b, p.Shutdown(context.Background())) })
	return p
}

// What toolverdict adds to groupbytrace.
func BenchmarkBehindGroupByTrace(b *testing.B) {
	group := map[string]any{"wait_duration": "1ms", "num_traces": 10000}
	for name, settings := range map[string]map[string]any{
		"groupbytrace alone":        nil,
		"with rollup":               {"normalise": false},
		"with normalise":            {"rollup": false},
		"with normalise and rollup": {},
	} {
		b.Run(name, func(b *testing.B) {
			arrived, next := counter(b)
			if settings != nil {
				next = start(b, toolverdictprocessor.NewFactory(), settings, next)
			}
			measure(b, arrived, start(b, groupbytraceprocessor.NewFactory(), group, next))
		})
	}
}

// stockStatements is the stock config's transform processor, read as the collector reads it: $$ is one $.
func stockStatements(b *testing.B) map[string]any {
	data, err := os.ReadFile(filepath.Join("..", "pieces", "normalise.yaml"))
	require.NoError(b, err)
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(strings.ReplaceAll(string(data), "$$", "$")))
	require.NoError(b, err)
	conf, err := retrieved.AsConf()
	require.NoError(b, err)
	return conf.ToStringMap()
}

// Normalising with toolverdict, and with the transform processor on the same input.
func BenchmarkNormalise(b *testing.B) {
	b.Run("toolverdict", func(b *testing.B) {
		arrived, next := counter(b)
		measure(b, arrived, start(b, toolverdictprocessor.NewFactory(), map[string]any{"rollup": false}, next))
	})
	b.Run("transform", func(b *testing.B) {
		arrived, next := counter(b)
		measure(b, arrived, start(b, transformprocessor.NewFactory(), stockStatements(b), next))
	})
	b.Run("nothing", func(b *testing.B) {
		arrived, next := counter(b)
		measure(b, arrived, next)
	})
}

// The input is what the benchmarks say it is.
func TestInput(t *testing.T) {
	sink := new(consumertest.TracesSink)
	factory := toolverdictprocessor.NewFactory()
	p, err := factory.CreateTraces(t.Context(), processortest.NewNopSettings(factory.Type()), factory.CreateDefaultConfig(), sink)
	require.NoError(t, err)
	require.NoError(t, p.ConsumeTraces(t.Context(), input()[0]))
	root := sink.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	for key, want := range map[string]int64{"acrux.tool.calls": 19, "acrux.tool.failed": 3} {
		got, ok := root.Attributes().Get(key)
		require.True(t, ok)
		require.Equal(t, want, got.Int(), key)
	}
}
