// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// agent is the root span of a run that has no summary of its own.
var agent = sp{name: "invoke_agent a", id: 1, to: 1000, attributes: attrs{"gen_ai.operation.name": "invoke_agent"}}

// ourTool is one call as our SDK writes it, under the agent.
func ourTool(id uint64, from, to int64, tool, outcome string, more attrs) sp {
	s := sp{name: "execute_tool " + tool, id: id, parent: 1, from: from, to: to, attributes: acrux(tool, outcome, more)}
	if outcome == "error" {
		s.status = statusError
	}
	return s
}

// summaryOf is what a span says of its trace.
func summaryOf(span ptrace.Span) attrs {
	out := attrs{}
	for _, key := range []string{
		attrTraceOutcome, attrCalls, attrFailed, attrWarned, attrNotExecuted, attrRetries, attrFirstFailed,
		attrFirstFailedType, attrFirstFailedCode, attrPartial, attrStorm, attrStormTool, attrStormCalls,
		attrStormIdentical, attrWrongRetries, attrUnanswered,
	} {
		if value := get(span, key); value != nil {
			out[key] = value
		}
	}
	return out
}

// root runs a trace and returns its first span.
func root(t testing.TB, spans ...sp) ptrace.Span {
	t.Helper()
	return spansOf(run(t, defaults(), traceOf(spans...)))[0]
}

// The root says how the trace ended, how many calls there were of each kind, and which failed first.
func TestTheRootSumsItsTraceUp(t *testing.T) {
	got := root(t, agent,
		ourTool(2, 10, 20, "search", "ok", attrs{"acrux.tool.attempts": int64(3)}),
		ourTool(3, 30, 90, "book", "error", attrs{"errorType": "http_status", "errorCode": "http_503"}),
		ourTool(4, 40, 50, "pay", "error", attrs{"errorType": "transport", "errorCode": "timeout"}),
		ourTool(5, 60, 70, "price", "warning", attrs{"errorType": "tool_declared", "errorCode": "stale", "warning.type": "stale"}),
		ourTool(6, 70, 70, "mail", "not_executed", nil),
		ourTool(7, 80, 90, "slow", "cancelled", nil),
	)
	assert.Equal(t, attrs{
		attrTraceOutcome: "error", attrCalls: int64(5), attrFailed: int64(2), attrWarned: int64(1),
		attrNotExecuted: int64(1), attrRetries: int64(2),
		attrFirstFailed: "pay", attrFirstFailedType: "transport", attrFirstFailedCode: "timeout",
	}, summaryOf(got))
	assert.Equal(t, statusUnset, got.Status().Code(), "the root's own status stays its own")
}

// A trace is red if any span in it is ERROR, amber if none is but one carries a warning, else green.
func TestTheTraceOutcomeFollowsOneRule(t *testing.T) {
	warned := ourTool(3, 1, 2, "b", "warning", attrs{"warning.type": "stale"})
	for name, c := range map[string]struct {
		spans []sp
		want  string
	}{
		"green":                         {[]sp{agent, ourTool(2, 1, 2, "a", "ok", nil)}, "ok"},
		"no calls at all":               {[]sp{agent}, "ok"},
		"amber":                         {[]sp{agent, ourTool(2, 1, 2, "a", "ok", nil), warned}, "warning"},
		"red beats amber":               {[]sp{agent, warned, ourTool(2, 1, 2, "a", "error", nil)}, "error"},
		"red by a span that is no tool": {[]sp{agent, warned, {name: "chat", id: 9, parent: 1, status: statusError}}, "error"},
		"red by the root itself":        {[]sp{{name: "a", id: 1, status: statusError, attributes: agent.attributes}}, "error"},
		"red under an OK":               {[]sp{agent, {name: "x", id: 2, parent: 1, status: statusOK, attributes: genai.with(attrs{"error.type": "tool_error"})}}, "error"},
		"amber by any span":             {[]sp{agent, {name: "x", id: 2, parent: 1, attributes: attrs{"warning.type": "slow"}}}, "warning"},
		"a pause painted red": {[]sp{agent, {name: "x", id: 2, parent: 1, status: statusError, attributes: openinference,
			exceptions: []attrs{{"exception.type": "langgraph.errors.GraphInterrupt"}}}}, "ok"},
		"cancelled is not red":    {[]sp{agent, ourTool(2, 1, 2, "a", "cancelled", nil)}, "ok"},
		"not executed is not red": {[]sp{agent, ourTool(2, 1, 2, "a", "not_executed", nil)}, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, get(root(t, c.spans...), attrTraceOutcome))
		})
	}
}

// A verdict that a sender made up, or an earlier tier found, does not stay: a trace is counted once by it.
func TestOnlyOneSpanOfATraceCarriesItsVerdict(t *testing.T) {
	forged := attrs{attrTraceVerdict: "error"}
	first := agent
	first.attributes = agent.attributes.with(forged)
	spans := spansOf(run(t, defaults(), traceOf(first,
		ourTool(2, 1, 2, "a", "ok", forged), sp{name: "GET", id: 3, parent: 2, attributes: forged})))
	assert.Equal(t, "ok", get(spans[0], attrTraceVerdict))
	assert.Nil(t, get(spans[1], attrTraceVerdict))
	assert.Nil(t, get(spans[2], attrTraceVerdict))

	plain := spansOf(run(t, defaults(), traceOf(sp{name: "GET", id: 1, attributes: forged})))
	assert.Nil(t, get(plain[0], attrTraceVerdict), "no agent's trace")
}

// An absurd count of attempts is bounded.
func TestAttemptsAreBounded(t *testing.T) {
	absurd := attrs{"acrux.tool.attempts": int64(1) << 62}
	got := root(t, agent, ourTool(2, 1, 2, "a", "ok", absurd), ourTool(3, 3, 4, "b", "ok", absurd), ourTool(4, 5, 6, "c", "ok", absurd))
	assert.Equal(t, int64(3*(maxAttempts-1)), get(got, attrRetries))
}

// Foreign calls are summed up like our own.
func TestForeignCallsAreSummedUp(t *testing.T) {
	got := root(t, agent,
		sp{name: "x", id: 2, parent: 1, from: 1, attributes: openinference},
		sp{name: "y", id: 3, parent: 1, from: 5, status: statusError, attributes: traceloop, exceptions: []attrs{{"exception.type": "httpx.ReadTimeout"}}},
	)
	assert.Equal(t, attrs{
		attrTraceOutcome: "error", attrCalls: int64(2), attrFailed: int64(1), attrWarned: int64(0),
		attrNotExecuted: int64(0), attrRetries: int64(0),
		attrFirstFailed: "search", attrFirstFailedType: "transport", attrFirstFailedCode: "timeout",
	}, summaryOf(got))
}

// mark_root puts ERROR on the root of a failed trace over UNSET, never over OK, and is off by default.
func TestMarkRootPaintsOnlyOverUnset(t *testing.T) {
	fails := ourTool(2, 1, 2, "pay", "error", attrs{"errorType": "http_status", "errorCode": "http_503"})
	rootWith := func(status ptrace.StatusCode, mark bool, spans ...sp) ptrace.Span {
		cfg := defaults()
		cfg.MarkRoot = mark
		first := agent
		first.status = status
		return spansOf(run(t, cfg, traceOf(append([]sp{first}, spans...)...)))[0]
	}
	marked := rootWith(statusUnset, true, fails)
	assert.Equal(t, statusError, marked.Status().Code())
	assert.Equal(t, "1 of 1 tool calls failed, first pay: http_503", marked.Status().Message())
	assert.Equal(t, statusOK, rootWith(statusOK, true, fails).Status().Code())
	assert.Equal(t, statusUnset, rootWith(statusUnset, false, fails).Status().Code())
	assert.Equal(t, statusUnset, rootWith(statusUnset, true).Status().Code())
	first := sp{name: "plan", id: 1, to: 1000, attributes: acrux("plan", "ok", nil)}
	cfg := defaults()
	cfg.MarkRoot = true
	tool := spansOf(run(t, cfg, traceOf(first, fails)))[0]
	assert.Equal(t, statusUnset, tool.Status().Code(), "the status of a root that is a tool call tells of that call")
	other := rootWith(statusUnset, true, sp{name: "chat", id: 2, parent: 1, status: statusError})
	assert.Equal(t, "a span of this trace failed", other.Status().Message())
}

// The processor's own finding stands beside whatever summary is there, on one span of a trace: an earlier
// summary counts the calls of one process, and a trace can hold several.
func TestTheProcessorsVerdictIsOnOneSpanOfATrace(t *testing.T) {
	http := sp{name: "POST /ask", id: 9, to: 2000}
	under := agent
	under.parent = 9
	under.attributes = agent.attributes.with(attrs{attrTraceOutcome: "ok", attrCalls: int64(1), attrFailed: int64(0)})
	spans := spansOf(run(t, defaults(), traceOf(http, under, ourTool(2, 1, 2, "a", "ok", nil),
		sp{name: "chat", id: 3, parent: 1, status: statusError, attributes: attrs{"gen_ai.operation.name": "chat"}})))
	assert.Equal(t, "error", get(spans[0], attrTraceVerdict))
	assert.Equal(t, "ok", get(spans[1], attrTraceOutcome), "kept")
	for _, span := range spans[1:] {
		assert.Nil(t, get(span, attrTraceVerdict))
	}
	alone := root(t, sp{name: "a", id: 1, to: 9, attributes: under.attributes}, ourTool(2, 1, 2, "b", "error", nil))
	assert.Equal(t, "ok", get(alone, attrTraceOutcome), "kept")
	assert.Equal(t, "error", get(alone, attrTraceVerdict))
}

// A run summary that is there stays as it is.
func TestAnExistingSummaryIsKept(t *testing.T) {
	first := agent
	first.attributes = agent.attributes.with(attrs{
		attrTraceOutcome: "ok", attrCalls: int64(1), attrFailed: int64(0), attrWarned: int64(0),
		attrNotExecuted: int64(0), attrRetries: int64(0),
	})
	got := root(t, first, ourTool(2, 1, 2, "a", "ok", nil), ourTool(3, 3, 4, "b", "error", nil))
	assert.Equal(t, "ok", get(got, attrTraceOutcome))
	assert.Equal(t, int64(1), get(got, attrCalls))
	assert.Equal(t, int64(0), get(got, attrFailed))
	assert.Equal(t, "b", get(got, attrFirstFailed), "what the summary lacks is added")
}

// A summary attribute of a wrong type is no summary.
func TestASummaryOfAWrongTypeIsReplaced(t *testing.T) {
	first := agent
	first.attributes = agent.attributes.with(attrs{attrTraceOutcome: int64(1), attrCalls: "many"})
	got := root(t, first, ourTool(2, 1, 2, "a", "ok", nil))
	assert.Equal(t, "ok", get(got, attrTraceOutcome))
	assert.Equal(t, int64(1), get(got, attrCalls))
}

// A group is partial where spans are known, or bound, to be missing: no root, a parent that is not there,
// a summary that counts more calls, a root that outlived the wait.
func TestGroupsWithMissingSpansArePartial(t *testing.T) {
	long := agent
	long.to = 60_000
	summed := agent
	summed.attributes = agent.attributes.with(attrs{attrCalls: int64(3)})
	summedLong := long
	summedLong.attributes = agent.attributes.with(attrs{attrCalls: int64(1)})
	earlier := agent
	earlier.attributes = agent.attributes.with(attrs{attrPartial: true})
	whole := agent
	whole.attributes = agent.attributes.with(attrs{attrPartial: false})
	summedLess := agent
	summedLess.attributes = agent.attributes.with(attrs{attrCalls: int64(0)})
	call := ourTool(2, 1, 2, "a", "ok", nil)
	orphan := ourTool(3, 5, 6, "b", "ok", nil)
	orphan.parent = 99
	for name, c := range map[string]struct {
		spans []sp
		wait  time.Duration
		want  any
	}{
		"whole":                                    {[]sp{agent, call}, time.Minute, nil},
		"no root":                                  {[]sp{call}, 0, true},
		"a parent is missing":                      {[]sp{agent, call, orphan}, 0, true},
		"the SDK counted more":                     {[]sp{summed, call}, 0, true},
		"the SDK counted fewer":                    {[]sp{summedLess, call}, 0, nil},
		"an earlier tier said whole":               {[]sp{whole, call}, 0, false},
		"the root outlived the wait":               {[]sp{long, call}, 10 * time.Second, true},
		"the wait is not known":                    {[]sp{long, call}, 0, nil},
		"it outlived the wait and nothing is gone": {[]sp{summedLong, call}, 10 * time.Second, nil},
		"an earlier tier said so":                  {[]sp{earlier, call}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := defaults()
			cfg.WaitDuration = c.wait
			assert.Equal(t, c.want, get(spansOf(run(t, cfg, traceOf(c.spans...)))[0], attrPartial))
		})
	}
}

// Without a root the topmost span that started first carries the summary, marked as partial; its own verdict
// and status stay.
func TestAGroupWithoutARootIsCarriedByItsTopmostSpan(t *testing.T) {
	late := ourTool(2, 50, 60, "a", "ok", nil)
	early := ourTool(3, 5, 6, "b", "error", attrs{"errorType": "transform", "errorCode": "x"})
	late.parent, early.parent = 98, 99
	cfg := defaults()
	cfg.MarkRoot = true
	spans := spansOf(run(t, cfg, traceOf(late, early)))
	assert.Empty(t, summaryOf(spans[0]))
	assert.Equal(t, "error", get(spans[1], attrTraceOutcome))
	assert.Equal(t, true, get(spans[1], attrPartial))
	assert.Equal(t, failed("transform", "x"), kindOf(spans[1]))
}

// A root that is itself a tool call keeps its own verdict beside its trace's.
func TestARootThatIsAToolKeepsItsVerdict(t *testing.T) {
	outer := sp{name: "execute_tool plan", id: 1, to: 100, attributes: acrux("plan", "ok", nil)}
	got := root(t, outer, ourTool(2, 1, 2, "pay", "error", attrs{"errorType": "transport", "errorCode": "timeout"}))
	assert.Equal(t, okVerdict, kindOf(got))
	assert.Equal(t, int64(2), get(got, attrCalls))
	assert.Equal(t, "error", get(got, attrTraceOutcome))
}

// Of several spans without a parent the one that starts first is the root.
func TestTheFirstOfSeveralRootsIsTheRoot(t *testing.T) {
	second := agent
	second.id, second.from = 7, 500
	spans := spansOf(run(t, defaults(), traceOf(second, agent, ourTool(2, 1, 2, "a", "ok", nil))))
	assert.Nil(t, get(spans[0], attrTraceOutcome))
	assert.Equal(t, "ok", get(spans[1], attrTraceOutcome))
}

// A trace without any sign of an agent is passed on as it came.
func TestOtherTracesAreLeftAlone(t *testing.T) {
	td := traceOf(sp{name: "GET /", id: 1, status: statusError}, sp{name: "SELECT", id: 2, parent: 1})
	before := ptrace.NewTraces()
	td.CopyTo(before)
	assert.Equal(t, before, run(t, defaults(), td))
}

// Each trace of a batch is summed up by itself, however their spans are mixed.
func TestTracesOfOneBatchAreKeptApart(t *testing.T) {
	td := traceWithID(1, agent, ourTool(2, 1, 2, "a", "ok", nil))
	traceWithID(2, agent, ourTool(2, 1, 2, "b", "error", nil)).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	traceWithID(3, sp{name: "GET /", id: 1}).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	traceWithID(1, ourTool(3, 5, 6, "c", "warning", nil)).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	spans := spansOf(run(t, defaults(), td))
	assert.Equal(t, "warning", get(spans[0], attrTraceOutcome))
	assert.Equal(t, int64(2), get(spans[0], attrCalls))
	assert.Equal(t, "error", get(spans[2], attrTraceOutcome))
	assert.Equal(t, int64(1), get(spans[2], attrCalls))
	assert.Empty(t, summaryOf(spans[4]))
}

// A copy of a span counts once; a span without an id counts; neither is dropped.
func TestDuplicateAndEmptyIDsCountOnce(t *testing.T) {
	twice := ourTool(2, 1, 2, "a", "error", nil)
	td := traceOf(agent, twice, twice, ourTool(3, 4, 5, "b", "ok", nil))
	spansOf(td)[3].SetSpanID([8]byte{})
	spans := spansOf(run(t, defaults(), td))
	assert.Len(t, spans, 4)
	assert.Equal(t, int64(2), get(spans[0], attrCalls))
	assert.Equal(t, int64(1), get(spans[0], attrFailed))
}

// Parents that go round in a circle end the search and lose nothing.
func TestCyclesOfParentsAreBorne(t *testing.T) {
	a, b, c := ourTool(2, 1, 2, "a", "ok", nil), ourTool(3, 3, 4, "b", "error", nil), ourTool(4, 5, 6, "c", "ok", nil)
	a.parent, b.parent, c.parent = 3, 2, 4
	for name, spans := range map[string][]sp{"beside a root": {agent, a, b, c}, "alone": {a, b, c}} {
		t.Run(name, func(t *testing.T) {
			out := spansOf(run(t, defaults(), traceOf(spans...)))
			assert.Len(t, out, len(spans))
			assert.Equal(t, int64(3), get(out[0], attrCalls))
			assert.Equal(t, int64(1), get(out[0], attrFailed))
		})
	}
}

// Summing up twice is summing up once.
func TestSummingUpIsIdempotent(t *testing.T) {
	once := run(t, defaults(), traceOf(agent, sp{name: "x", id: 2, parent: 1, attributes: mcp.with(attrs{"error.type": "tool_error"})},
		sp{name: "y", id: 3, parent: 2, kind: ptrace.SpanKindServer, attributes: mcp}))
	before := ptrace.NewTraces()
	once.CopyTo(before)
	assert.Equal(t, before, run(t, defaults(), once))
}

// rollup: false leaves every root alone.
func TestRollupCanBeOff(t *testing.T) {
	cfg := defaults()
	cfg.Rollup = false
	assert.Empty(t, summaryOf(spansOf(run(t, cfg, traceOf(agent, ourTool(2, 1, 2, "a", "error", nil))))[0]))
}

// normalise: false sums up what carries a verdict and touches nothing else.
func TestNormaliseCanBeOff(t *testing.T) {
	cfg := defaults()
	cfg.Normalise = false
	spans := spansOf(run(t, cfg, traceOf(agent, ourTool(2, 1, 2, "a", "ok", nil), sp{name: "x", id: 3, parent: 1, attributes: openinference})))
	assert.Equal(t, int64(1), get(spans[0], attrCalls))
	assert.Equal(t, noVerdict, kindOf(spans[2]))
}
