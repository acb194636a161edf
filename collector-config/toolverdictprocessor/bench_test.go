// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// The spans of a real agent run, as their instrumentations write them: attribute counts and lengths are those
// of the golden traces and of the conventions' examples.
var (
	benchHTTP = attrs{
		"http.request.method": "POST", "url.full": "https://api.example.com/v1/messages", "server.address": "api.example.com",
		"server.port": int64(443), "network.protocol.version": "1.1", "http.response.status_code": int64(200),
		"http.request.body.size": int64(5120), "http.response.body.size": int64(1880), "network.peer.address": "192.0.2.7",
		"network.peer.port": int64(443), "user_agent.original": "python-httpx/0.28.1", "thread.id": int64(140213),
	}
	benchDB = attrs{
		"db.system.name": "postgresql", "db.namespace": "shop", "db.collection.name": "orders", "db.operation.name": "SELECT",
		"db.query.text":  "SELECT id, state FROM orders WHERE customer = $1 ORDER BY id DESC LIMIT 20",
		"server.address": "db.example.com", "server.port": int64(5432), "db.response.returned_rows": int64(20), "thread.id": int64(140213),
	}
	benchChat = attrs{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m-large", "gen_ai.response.model": "m-large-2",
		"gen_ai.request.max_tokens": int64(4096), "gen_ai.request.temperature": 0.2, "gen_ai.response.id": "resp_0123456789",
		"gen_ai.usage.input_tokens": int64(2210), "gen_ai.usage.output_tokens": int64(95), "gen_ai.response.finish_reasons": []any{"tool_calls"},
		"server.address": "api.example.com", "server.port": int64(443), "session.id": "s-881",
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"tool_call","id":"call_1","name":"search","arguments":{"q":"oslo"}}]}]`,
		"gen_ai.input.messages":  `[{"role":"user","parts":[{"type":"text","content":"` + strings.Repeat("What is the weather like? ", 20) + `"}]}]`,
	}
	benchChain = attrs{
		"openinference.span.kind": "CHAIN", "input.value": strings.Repeat("x", 400), "output.value": strings.Repeat("y", 600),
		"input.mime_type": "application/json", "output.mime_type": "application/json", "session.id": "s-881", "metadata": `{"step": 3}`,
	}
	benchTools = []sp{
		{name: "search", attributes: attrs{
			"openinference.span.kind": "TOOL", "tool.name": "search", "tool.description": "Search the catalogue.", "input.value": `{"q": "oslo"}`,
			"output.value":     `{"type": "tool", "data": {"content": "` + strings.Repeat("row ", 60) + `", "type": "tool", "tool_call_id": "call_1", "status": "success"}}`,
			"output.mime_type": "application/json", "session.id": "s-881",
		}, status: statusOK},
		{name: "execute_tool search", attributes: attrs{
			"traceloop.span.kind": "tool", "traceloop.entity.name": "search", "traceloop.workflow.name": "run", "traceloop.entity.path": "run.agent",
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.type": "function", "gen_ai.task.status": "success",
			"traceloop.entity.input":  `{"input_str": "{'q': 'oslo'}", "tags": [], "metadata": {}, "inputs": {"q": "oslo"}, "kwargs": {"color": "green", "tool_call_id": "call_1"}}`,
			"traceloop.entity.output": `{"output": {"lc": 1, "kwargs": {"content": "` + strings.Repeat("row ", 60) + `", "type": "tool", "tool_call_id": "call_1", "status": "success"}}}`,
		}},
		{name: "execute_tool search", attributes: attrs{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.type": "function", "gen_ai.tool.call.id": "call_1",
			"gen_ai.tool.description": "Search the catalogue.", "gen_ai.agent.name": "a", "session.id": "s-881",
		}},
		{name: "tools/call search", kind: ptrace.SpanKindClient, attributes: attrs{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": "search", "gen_ai.operation.name": "execute_tool", "mcp.session.id": "x-1",
			"jsonrpc.request.id": "17", "network.transport": "tcp", "server.address": "mcp.example.com", "mcp.protocol.version": "2026-06-18",
		}},
		{name: "execute_tool pay", status: statusError, message: "timed out", attributes: attrs{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay", "gen_ai.tool.type": "function", "gen_ai.tool.call.id": "call_2",
			"error.type": "ReadTimeout", "gen_ai.agent.name": "a", "session.id": "s-881",
		}, exceptions: []attrs{{"exception.type": "httpx.ReadTimeout", "exception.message": "timed out", "exception.stacktrace": strings.Repeat("  at x\n", 100)}}},
		{name: "tools/call lookup", kind: ptrace.SpanKindServer, status: statusError, message: "no such row", attributes: attrs{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": "lookup", "gen_ai.operation.name": "execute_tool", "error.type": "tool_error",
			"jsonrpc.request.id": "18", "network.transport": "tcp",
		}},
	}
)

const benchSpans = 6000

// benchBatch is benchSpans spans in traces of a given length, taken in turn from some kinds; the first of each
// trace is its root.
func benchBatch(length int, of ...sp) ptrace.Traces {
	td := ptrace.NewTraces()
	for trace := range benchSpans / length {
		spans := []sp{{name: "invoke_agent a", id: 1, to: 60_000, attributes: attrs{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", "session.id": "s-881"}}}
		for i := 1; i < length; i++ {
			s := of[i%len(of)]
			s.id, s.parent, s.from = uint64(i)+1, 1, int64(i)*100
			s.to = s.from + 90
			spans = append(spans, s)
		}
		traceWithID(uint64(trace)+1, spans...).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	}
	return td
}

func others() []sp {
	return []sp{{name: "POST", attributes: benchHTTP}, {name: "chat m-large", attributes: benchChat}, {name: "SELECT", attributes: benchDB}, {name: "chain", attributes: benchChain}}
}

// mixed is a run: three other spans to a tool call.
func mixed() []sp {
	var out []sp
	for _, tool := range benchTools {
		out = append(append(out, others()[:3]...), tool)
	}
	return out
}

func bench(b *testing.B, cfg *Config, batches func() ptrace.Traces) {
	b.Helper()
	p := newForTest(b, cfg)
	template := batches()
	spans := template.SpanCount()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		td := ptrace.NewTraces()
		template.CopyTo(td)
		b.StartTimer()
		if _, err := p.process(b.Context(), td); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(spans)*float64(b.N)/b.Elapsed().Seconds(), "spans/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(spans), "ns/span")
}

func normaliseOnly() *Config {
	cfg := defaults()
	cfg.Rollup = false
	return cfg
}

func rollupOnly() *Config {
	cfg := defaults()
	cfg.Normalise = false
	return cfg
}

// Goals, per core: a million spans a second that are no tools, a quarter of a million that are.
func BenchmarkNormalise(b *testing.B) {
	b.Run("other spans", func(b *testing.B) {
		bench(b, normaliseOnly(), func() ptrace.Traces { return benchBatch(60, others()...) })
	})
	b.Run("tool spans", func(b *testing.B) {
		bench(b, normaliseOnly(), func() ptrace.Traces { return benchBatch(60, benchTools...) })
	})
	for i, name := range []string{"openinference", "traceloop", "genai", "mcp", "exception", "tool_error"} {
		b.Run("tool spans/"+name, func(b *testing.B) {
			bench(b, normaliseOnly(), func() ptrace.Traces { return benchBatch(60, benchTools[i]) })
		})
	}
	b.Run("a run", func(b *testing.B) {
		bench(b, normaliseOnly(), func() ptrace.Traces { return benchBatch(60, mixed()...) })
	})
}

// The rollup alone, of traces that carry their verdicts, and both together.
func BenchmarkRollup(b *testing.B) {
	for _, length := range []int{12, 60, 600, 6000} {
		b.Run(fmt.Sprintf("rollup/%d spans a trace", length), func(b *testing.B) {
			bench(b, rollupOnly(), func() ptrace.Traces {
				td, err := newForTest(b, normaliseOnly()).process(b.Context(), benchBatch(length, mixed()...))
				if err != nil {
					b.Fatal(err)
				}
				return td
			})
		})
	}
	b.Run("normalise and rollup/60 spans a trace", func(b *testing.B) {
		bench(b, defaults(), func() ptrace.Traces { return benchBatch(60, mixed()...) })
	})
}
