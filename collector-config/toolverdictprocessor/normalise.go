// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// ours is the source of a call whose own instrumentation wrote its outcome.
const ours = -1

// call is what the rollup needs to know of one tool span.
type call struct {
	verdict
	entry    int32 // its span, in the group
	source   int   // index of rules.sources, or ours
	tool     string
	id       string
	args     argsKey
	attempts int64

	// between the spans of one group
	layerOf int32 // the call that this span is a layer of, or none
	last    int32 // its own layer that ended last, or none
	repeats int64 // how often that layer was made
}

// normaliser reads tool spans, and writes verdicts on those that have none. Not safe for concurrent use.
type normaliser struct {
	rules        *rules
	write        bool
	rollup       bool // arguments are asked for
	overrideOK   bool
	maxResult    int
	facts        facts
	malformed    int64 // spans with an attribute of a wrong type or an absurd length
	okLeft       int64 // failed calls whose span says OK
	normalised   []int64
	normalisedTo [outcomeCount]int64
}

// read looks at one span. It reports whether the span is a tool call, and whether it belongs to an
// agent's trace at all. Where it is a foreign tool call, its verdict is written on it.
func (n *normaliser) read(span ptrace.Span, c *call) (tool, agent bool) {
	f := &n.facts
	n.rules.keys.scan(span.Attributes(), f)
	if f.present.has(slotOutcome) {
		n.readOurs(span, c)
		n.count()
		return true, true
	}
	if f.present&n.rules.sourceMask != 0 {
		if source := n.source(); source >= 0 {
			n.readForeign(span, source, c)
			n.count()
			return n.write, true
		}
	}
	n.count()
	return false, f.model || f.present&n.rules.agentMask != 0
}

// ownWork tells whether the span in hand, which is no tool call, begins work of its own: a model's or an agent's.
func (n *normaliser) ownWork() bool {
	f := &n.facts
	if f.model || f.present&n.rules.ownWorkMask == 0 {
		return f.model
	}
	for i := range n.rules.ownWork {
		row := &n.rules.ownWork[i]
		if f.present.has(row.attribute) && f.values[row.attribute].Type() == pcommon.ValueTypeStr &&
			slices.Contains(row.values, f.values[row.attribute].Str()) {
			return true
		}
	}
	return false
}

func (n *normaliser) count() {
	if n.facts.odd {
		n.malformed++
	}
}

func (n *normaliser) source() int {
	for i := range n.rules.sources {
		s := &n.rules.sources[i]
		if n.facts.present.has(s.attribute) && n.facts.text(s.attribute) == s.value {
			return i
		}
	}
	return -1
}

// readOurs takes the verdict that the span carries; it is never written anew.
func (n *normaliser) readOurs(span ptrace.Span, c *call) {
	f := &n.facts
	*c = call{source: ours, tool: f.name(slotToolName), id: f.text(slotCallID)}
	if c.tool == "" {
		c.tool = text(strings.TrimPrefix(span.Name(), operationExecuteTool+" "), maxName)
	}
	c.outcome = parseOutcome(f.text(slotOutcome))
	if c.outcome == outcomeNone {
		f.odd = true
		c.outcome = outcomeOK
		if span.Status().Code() == ptrace.StatusCodeError {
			c.outcome = outcomeError
		}
	}
	c.errorType, c.errorCode = f.name(slotErrorType), f.name(slotErrorCode)
	c.detail = f.text(slotErrorDetail)
	c.retryable = f.truth(slotRetryable)
	c.attempts, _ = f.integer(slotAttempts)
	if c.attempts > maxAttempts {
		f.odd, c.attempts = true, maxAttempts
	}
	if n.rollup {
		c.args = n.arguments(nil)
	}
	// What this processor wrote earlier, in another tier, is as weak or strong as it was there.
	if from := f.text(slotNormalisedFrom); from != "" {
		for i := range n.rules.sources {
			if n.rules.sources[i].name == from {
				c.source = i
				if n.rollup {
					c.args = n.arguments(&n.rules.sources[i])
				}
			}
		}
	}
}

func (n *normaliser) readForeign(span ptrace.Span, index int, c *call) {
	s := &n.rules.sources[index]
	*c = call{source: index, tool: n.toolName(span, s), id: n.callID(s)}
	if n.rollup {
		c.args = n.arguments(s)
	}
	if !n.write {
		return
	}
	c.verdict = n.judge(span)
	n.writeIdentity(span, s, c)
	n.writeVerdict(span, &c.verdict)
	n.normalised[index]++
	n.normalisedTo[c.outcome]++
}

func (n *normaliser) toolName(span ptrace.Span, s *source) string {
	if name := n.facts.name(slotToolName); name != "" {
		return name
	}
	for _, slot := range s.toolName {
		if name := n.facts.name(slot); name != "" {
			return name
		}
	}
	name := span.Name()
	for _, prefix := range s.trimPrefix {
		name = strings.TrimPrefix(name, prefix)
	}
	for _, suffix := range s.trimSuffix {
		name = strings.TrimSuffix(name, suffix)
	}
	if len(name) > maxName {
		n.facts.odd = true
	}
	return text(name, maxName)
}

func (n *normaliser) callID(s *source) string {
	if id := n.facts.name(slotCallID); id != "" {
		return id
	}
	for _, field := range s.callID {
		if id := n.field(field); id.Type == gjson.String && id.Str != "" && len(id.Str) <= maxName {
			return id.Str
		}
	}
	return ""
}

// field reads a JSON field of an attribute, or the attribute itself where it names no path.
func (n *normaliser) field(from field) gjson.Result {
	if !n.facts.present.has(from.slot) || n.facts.values[from.slot].Type() != pcommon.ValueTypeStr {
		return gjson.Result{}
	}
	value := n.facts.values[from.slot].Str()
	if from.path == "" {
		return gjson.Result{Type: gjson.String, Str: value, Raw: value}
	}
	if len(value) > n.maxResult || value == "" || value[0] != '{' {
		return gjson.Result{}
	}
	return gjson.Get(value, from.path)
}
