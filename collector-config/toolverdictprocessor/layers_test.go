// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

const (
	client = ptrace.SpanKindClient
	server = ptrace.SpanKindServer
)

// One fastmcp call makes three spans (its client, the MCP client, its server) and is one call; the client
// that saw nothing takes the server's word.
func TestOneCallInThreeSpansIsOneCall(t *testing.T) {
	spans := spansOf(run(t, defaults(), traceOf(agent,
		sp{name: "tools/call search", id: 2, parent: 1, from: 1, to: 9, scope: "fastmcp", kind: client, attributes: mcp},
		sp{name: "MCP send tools/call search", id: 3, parent: 2, from: 2, to: 8, scope: "mcp", kind: client, attributes: mcp},
		sp{name: "tools/call search", id: 4, parent: 3, from: 3, to: 7, scope: "fastmcp", kind: server, status: statusError,
			message: "no such row", attributes: mcp.with(attrs{"error.type": "tool_error"})},
	)))
	assert.Equal(t, int64(1), get(spans[0], attrCalls))
	assert.Equal(t, int64(1), get(spans[0], attrFailed))
	assert.Equal(t, int64(0), get(spans[0], attrRetries))
	for _, span := range spans[1:] {
		assert.Equal(t, failed("tool_declared", "tool_error"), kindOf(span))
		assert.Equal(t, "no such row", get(span, attrErrorDetail))
		assert.Equal(t, statusError, span.Status().Code())
	}
	assert.Nil(t, get(spans[1], attrLayerOf))
	assert.Equal(t, spans[1].SpanID().String(), get(spans[2], attrLayerOf))
	assert.Equal(t, spans[1].SpanID().String(), get(spans[3], attrLayerOf))
}

// A model or an agent between two tool spans proves that they are two calls, whatever they are called.
func TestAnAgentBelowAToolMakesCallsOfItsOwn(t *testing.T) {
	for name, between := range map[string]attrs{
		"a model, GenAI":          {"gen_ai.operation.name": "chat"},
		"an agent, GenAI":         {"gen_ai.operation.name": "invoke_agent"},
		"a model, OpenInference":  {"openinference.span.kind": "LLM"},
		"an agent, OpenInference": {"openinference.span.kind": "AGENT"},
		"an agent, Traceloop":     {"traceloop.span.kind": "agent"},
		"calls that it asked for": asks["openinference"],
	} {
		t.Run(name, func(t *testing.T) {
			inner := ourTool(5, 4, 60, "search", "ok", nil)
			inner.parent = 4
			spans := spansOf(run(t, defaults(), traceOf(agent,
				sp{name: "search", id: 2, parent: 1, from: 1, to: 90, scope: "fw", attributes: openinference},
				sp{name: "between", id: 3, parent: 2, from: 2, to: 80, attributes: between},
				sp{name: "step", id: 4, parent: 3, from: 3, to: 70, attributes: attrs{"openinference.span.kind": "CHAIN"}},
				inner,
			)))
			assert.Equal(t, int64(2), get(spans[0], attrCalls))
			assert.Nil(t, get(spans[4], attrLayerOf))
		})
	}
}

// The verdict that a tool's owner wrote outranks its layers: the guard may have recovered.
func TestTheOwnersVerdictOutranksItsLayers(t *testing.T) {
	spans := spansOf(run(t, defaults(), traceOf(agent,
		ourTool(2, 1, 90, "search", "ok", attrs{"acrux.tool.attempts": int64(2)}),
		sp{name: "tools/call search", id: 3, parent: 2, from: 2, to: 8, kind: client, attributes: mcp.with(attrs{"error.type": "timeout"})},
		sp{name: "tools/call search", id: 4, parent: 2, from: 9, to: 12, kind: client, attributes: mcp},
	)))
	assert.Equal(t, okVerdict, kindOf(spans[1]))
	assert.Equal(t, int64(1), get(spans[0], attrCalls))
	assert.Equal(t, int64(0), get(spans[0], attrFailed))
	assert.Equal(t, int64(1), get(spans[0], attrRetries))
}

// A call of our SDK that its tool recovered stays what the tool says, and counts the retries that the guard
// counted.
func TestALayersFailureIsNotOurs(t *testing.T) {
	layer := func(id uint64, from int64) sp {
		return sp{name: "tools/call search", id: id, parent: 2, from: from, kind: client, attributes: mcp.with(attrs{"error.type": "timeout"})}
	}
	spans := spansOf(run(t, defaults(), traceOf(agent, ourTool(2, 1, 90, "search", "ok", nil), layer(3, 2), layer(4, 10))))
	assert.Equal(t, okVerdict, kindOf(spans[1]))
	assert.Equal(t, int64(0), get(spans[0], attrFailed))
	assert.Equal(t, int64(0), get(spans[0], attrRetries))
}

// Layers in a circle, and calls without a name, are calls of their own.
func TestLayersNeedAnOrderAndAName(t *testing.T) {
	inner, outer := ourTool(2, 1, 2, "a", "ok", nil), ourTool(3, 1, 2, "a", "ok", nil)
	inner.parent, outer.parent, inner.kind = 3, 2, client
	out := spansOf(run(t, defaults(), traceOf(agent, inner, outer)))
	assert.Len(t, out, 3)
	assert.EqualValues(t, 1, get(out[0], attrCalls), "the circle is cut once")

	nameless := attrs{"acrux.tool.outcome": "ok"}
	got := root(t, agent, sp{id: 2, parent: 1, attributes: nameless}, sp{id: 3, parent: 2, kind: client, attributes: nameless})
	assert.EqualValues(t, 2, get(got, attrCalls))
}

// A foreign call whose layer was made again took its last layer's verdict, and retried.
func TestTheLastOfRepeatedLayersDecides(t *testing.T) {
	layer := func(id uint64, from int64, more attrs) sp {
		return sp{name: "tools/call search", id: id, parent: 2, from: from, to: from + 1, kind: client, attributes: mcp.with(more)}
	}
	spans := spansOf(run(t, defaults(), traceOf(agent,
		sp{name: "search", id: 2, parent: 1, from: 1, to: 90, attributes: openinference},
		layer(4, 20, nil), layer(3, 10, attrs{"error.type": "timeout"}),
	)))
	assert.Equal(t, okVerdict, kindOf(spans[1]))
	assert.Equal(t, int64(1), get(spans[0], attrCalls))
	assert.Equal(t, int64(1), get(spans[0], attrRetries))
}

// Other tools below a tool, a tool that calls itself, and spans that call ids tell apart are calls of their
// own; layers may have other spans between them.
func TestOnlyLayersAreFolded(t *testing.T) {
	below := func(more attrs, kind ptrace.SpanKind, scope string) int64 {
		got := root(t, agent,
			sp{name: "search", id: 2, parent: 1, to: 90, scope: "a", attributes: genai.with(attrs{"gen_ai.tool.call.id": "1"})},
			sp{name: "HTTP", id: 3, parent: 2, to: 80},
			sp{name: "search", id: 4, parent: 3, to: 70, scope: scope, kind: kind, attributes: genai.with(more)},
		)
		return get(got, attrCalls).(int64)
	}
	assert.EqualValues(t, 1, below(nil, client, "a"), "another kind")
	assert.EqualValues(t, 1, below(nil, 0, "b"), "another scope")
	assert.EqualValues(t, 1, below(attrs{"gen_ai.tool.call.id": "1"}, 0, "a"), "the same call id")
	assert.EqualValues(t, 2, below(nil, 0, "a"), "a tool that calls itself")
	assert.EqualValues(t, 2, below(attrs{"gen_ai.tool.call.id": "2"}, client, "b"), "another call id")
	assert.EqualValues(t, 2, below(attrs{"gen_ai.tool.name": "other"}, client, "b"), "another tool")
}

// A declared failure of our SDK below a foreign span that says OK is the call's verdict (the OK trap).
func TestOurVerdictBelowAForeignSpanCounts(t *testing.T) {
	inner := ourTool(3, 2, 3, "search", "error", attrs{"errorType": "tool_declared", "errorCode": "location_not_found", "errorDetail": "no Atlantis"})
	inner.parent, inner.scope = 2, "acrux_otel"
	spans := spansOf(run(t, defaults(), traceOf(agent,
		sp{name: "search", id: 2, parent: 1, from: 1, to: 9, status: statusOK, attributes: openinference}, inner)))
	assert.Equal(t, failed("tool_declared", "location_not_found"), kindOf(spans[1]))
	assert.Equal(t, statusOK, spans[1].Status().Code())
	assert.Equal(t, int64(1), get(spans[0], attrFailed))
	assert.Equal(t, int64(1), get(spans[0], attrCalls))
}

// A thousand layers deep is still one call, found in one go.
func TestDeepLayersAreOneCall(t *testing.T) {
	spans := []sp{agent}
	for i := range uint64(1000) {
		spans = append(spans, sp{name: "x", id: i + 2, parent: i + 1, scope: []string{"a", "b"}[i%2], to: 2000 - int64(i), attributes: genai})
	}
	assert.EqualValues(t, 1, get(root(t, spans...), attrCalls))
}
