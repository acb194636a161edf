// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// calls are n calls of a tool one after another, each with the attributes that fn gives.
func calls(n int, fn func(i int) attrs) []sp {
	spans := []sp{agent}
	for i := range n {
		more := fn(i)
		outcome, _ := more["outcome"].(string)
		if outcome == "" {
			outcome = "ok"
		}
		delete(more, "outcome")
		spans = append(spans, ourTool(uint64(i)+2, int64(i)*10, int64(i)*10+5, "billing", outcome, more))
	}
	return spans
}

func hash(value string) attrs { return attrs{"acrux.tool.arguments.hash": value} }

func stormOf(span ptrace.Span) []any {
	return []any{get(span, attrStorm), get(span, attrStormTool), get(span, attrStormCalls), get(span, attrStormIdentical)}
}

var noStorm = []any{nil, nil, nil, nil}

// Identical calls over their threshold are a storm; at the threshold they are not.
func TestIdenticalCallsOverTheThresholdAreAStorm(t *testing.T) {
	same := func(int) attrs { return hash("h") }
	assert.Equal(t, noStorm, stormOf(root(t, calls(defaultIdenticalCalls, same)...)))
	assert.Equal(t, []any{true, "billing", int64(defaultIdenticalCalls + 1), true},
		stormOf(root(t, calls(defaultIdenticalCalls+1, same)...)))
}

// Calls of one tool over its threshold are a storm whatever their arguments, and the claim is no more.
func TestCallsOfOneToolOverTheThresholdAreAStorm(t *testing.T) {
	for name, fn := range map[string]func(int) attrs{
		"different arguments": func(i int) attrs { return hash(fmt.Sprint(i)) },
		"arguments not known": func(int) attrs { return attrs{} },
		"arguments cut": func(int) attrs {
			return attrs{"gen_ai.tool.call.arguments": "{", "acrux.tool.truncated_bytes": int64(9)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, noStorm, stormOf(root(t, calls(defaultCallsPerTool, fn)...)))
			assert.Equal(t, []any{true, "billing", int64(29), false}, stormOf(root(t, calls(29, fn)...)))
		})
	}
}

// Captured arguments tell identical calls where there is no hash, in every vocabulary, and without the call
// id that stands beside them.
func TestCapturedArgumentsTellIdenticalCalls(t *testing.T) {
	for name, fn := range map[string]func(i int) attrs{
		"openinference": func(int) attrs { return openinference.with(attrs{"input.value": `{"city":"a"}`}) },
		"genai":         func(int) attrs { return genai.with(attrs{"gen_ai.tool.call.arguments": `{"city":"a"}`}) },
		"genai, a map":  func(int) attrs { return genai.with(attrs{"gen_ai.tool.call.arguments": map[string]any{"city": "a"}}) },
		"traceloop": func(i int) attrs {
			input := fmt.Sprintf(`{"inputs": {"city": "a"}, "kwargs": {"tool_call_id": "call_%d"}}`, i)
			return traceloop.with(attrs{"traceloop.entity.input": input, "gen_ai.tool.call.arguments": input})
		},
		"traceloop, a decorated function": func(int) attrs {
			return traceloop.with(attrs{"traceloop.entity.input": `{"args": ["a"], "kwargs": {}}`})
		},
	} {
		t.Run(name, func(t *testing.T) {
			spans := []sp{agent}
			for i := range 6 {
				spans = append(spans, sp{name: "x", id: uint64(i) + 2, parent: 1, from: int64(i) * 10, attributes: fn(i)})
			}
			assert.Equal(t, []any{true, "search", int64(6), true}, stormOf(root(t, spans...)))
		})
	}
}

// Of several storms the identical calls are named, and of those the most.
func TestTheWorstStormIsNamed(t *testing.T) {
	spans := calls(40, func(i int) attrs { return hash(fmt.Sprint(i)) })
	for i := range 7 {
		spans = append(spans, ourTool(uint64(i)+100, 1000+int64(i)*10, 1000+int64(i)*10+5, "mail", "ok", hash("m")))
	}
	assert.Equal(t, []any{true, "mail", int64(7), true}, stormOf(root(t, spans...)))
}

// A threshold of 0 makes no claim of its kind.
func TestStormsCanBeOff(t *testing.T) {
	cfg := defaults()
	cfg.Storm = StormConfig{}
	td := traceOf(calls(50, func(int) attrs { return hash("h") })...)
	assert.Equal(t, noStorm, stormOf(spansOf(run(t, cfg, td))[0]))
}

// Calls that did not run are no calls, and sending them again is no storm.
func TestResendsOfCallsThatDidNotRunAreExempt(t *testing.T) {
	got := root(t, calls(12, func(i int) attrs {
		if i%2 == 0 {
			return hash("h").with(attrs{"outcome": "not_executed"})
		}
		return hash("h")
	})...)
	assert.Equal(t, noStorm, stormOf(got))
	assert.Equal(t, int64(6), get(got, attrNotExecuted))
}

// What an open circuit refused asked nothing of the tool: it is no storm, and its resend is exempt.
func TestRefusalsOfAnOpenCircuitAreNoStorm(t *testing.T) {
	refused := func(int) attrs {
		return hash("h").with(attrs{"outcome": "error", "errorType": "transport", "errorCode": "circuit_open"})
	}
	assert.Equal(t, noStorm, stormOf(root(t, calls(30, refused)...)))
}

// One call that did not run excuses one resend, no more.
func TestOneCallThatDidNotRunExcusesOneResend(t *testing.T) {
	got := root(t, calls(8, func(i int) attrs {
		if i == 0 {
			return hash("h").with(attrs{"outcome": "not_executed"})
		}
		return hash("h")
	})...)
	assert.Equal(t, []any{true, "billing", int64(6), true}, stormOf(got))
}

func fails(retryable any) attrs {
	out := hash("h").with(attrs{"outcome": "error", "errorType": "http_status", "errorCode": "http_404"})
	if retryable != nil {
		out["acrux.tool.retryable"] = retryable
	}
	return out
}

// A failure marked not retryable that is asked for again unchanged is a wrong retry, each time.
func TestUnchangedCallsAfterAFinalFailureAreWrongRetries(t *testing.T) {
	count := func(fn func(i int) attrs) any { return get(root(t, calls(4, fn)...), attrWrongRetries) }
	assert.Equal(t, int64(3), count(func(int) attrs { return fails(false) }))
	assert.Nil(t, count(func(int) attrs { return fails(true) }), "it may be retried")
	assert.Nil(t, count(func(int) attrs { return fails(nil) }), "nobody knows")
	assert.Nil(t, count(func(i int) attrs { return fails(false).with(hash(fmt.Sprint(i))) }), "the arguments changed")
	assert.Nil(t, count(func(int) attrs {
		unknown := fails(false)
		delete(unknown, "acrux.tool.arguments.hash")
		return unknown
	}), "the arguments are not known")
	assert.Equal(t, int64(1), count(func(i int) attrs {
		if i == 0 {
			return fails(false)
		}
		return hash("h")
	}), "what went well afterwards is no failure to retry")
}

// Foreign failures take part: a 404 is not retryable.
func TestForeignFailuresCanBeWronglyRetried(t *testing.T) {
	spans := []sp{agent}
	for i := range 3 {
		spans = append(spans, sp{name: "x", id: uint64(i) + 2, parent: 1, from: int64(i) * 10, status: statusError,
			attributes: openinference.with(attrs{"input.value": "a", "http.response.status_code": int64(404)})})
	}
	assert.Equal(t, int64(2), get(root(t, spans...), attrWrongRetries))
}

// Calls at the same time are no retries of each other.
func TestSimultaneousCallsAreNoRetries(t *testing.T) {
	more := func() attrs { m := fails(false); delete(m, "outcome"); return m }
	got := root(t, agent, ourTool(2, 1, 10, "a", "error", more()), ourTool(3, 2, 11, "a", "error", more()))
	assert.Nil(t, get(got, attrWrongRetries))
}

// After a call that did not run, sending it again is right, whatever came before.
func TestResendsAfterNotExecutedAreNoWrongRetries(t *testing.T) {
	got := root(t, calls(3, func(i int) attrs {
		return []attrs{fails(false), hash("h").with(attrs{"outcome": "not_executed"}), hash("h")}[i]
	})...)
	assert.Nil(t, get(got, attrWrongRetries))
}

// B failed while A, which it needed, was still at work and later went well: asking for B again is right. A
// second time it is not.
func TestTheResendAfterADependencyFailureIsExempt(t *testing.T) {
	more := func() attrs { m := fails(false); delete(m, "outcome"); return m }
	b := func(id uint64, from int64) sp { return ourTool(id, from, from+5, "read", "error", more()) }
	a := func(id uint64, from, to int64, outcome string) sp {
		return ourTool(id, from, to, "write", outcome, nil)
	}
	for name, c := range map[string]struct {
		spans []sp
		want  any
	}{
		"A overlapped and went well":  {[]sp{agent, a(2, 0, 50, "ok"), b(3, 10), b(4, 60)}, nil},
		"A was over before":           {[]sp{agent, a(2, 0, 5, "ok"), b(3, 10), b(4, 60)}, int64(1)},
		"A failed":                    {[]sp{agent, a(2, 0, 50, "error"), b(3, 10), b(4, 60)}, int64(1)},
		"A was still at work":         {[]sp{agent, a(2, 0, 90, "ok"), b(3, 10), b(4, 60)}, int64(1)},
		"the resend failed as well":   {[]sp{agent, a(2, 0, 50, "ok"), b(3, 10), b(4, 60), b(5, 70)}, int64(1)},
		"and so once more":            {[]sp{agent, a(2, 0, 50, "ok"), b(3, 10), a(6, 55, 90, "ok"), b(4, 60), b(5, 100)}, int64(1)},
		"A began only afterwards":     {[]sp{agent, b(3, 10), a(2, 20, 50, "ok"), b(4, 60)}, int64(1)},
		"A ended while B was at work": {[]sp{agent, a(2, 0, 12, "ok"), b(3, 10), b(4, 60)}, int64(1)},
	} {
		assert.Equal(t, c.want, get(root(t, c.spans...), attrWrongRetries), name)
	}
}
