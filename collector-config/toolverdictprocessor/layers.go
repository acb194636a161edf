// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// layers folds the several spans that one call can make (an agent framework's, an MCP client's, an MCP
// server's) into one: the outermost stands for the call. Two spans, one right above the other but for spans
// that are neither tool calls nor a model's or an agent's, are layers of one call when they name the same
// tool, no two call ids tell them apart, and different parts of the stack made them: another scope or another
// span kind. A tool that calls itself has the same scope and kind, and stays two calls.
type layers struct {
	inner []int32
	path  []int32
}

func (l *layers) reset() { l.inner = l.inner[:0] }

// fold returns the calls that are no layers, with the verdicts that their layers gave them.
func (l *layers) fold(order []int32, entries []entry, calls []call, write func(ptrace.Span, *verdict)) []int32 {
	outer := order[:0]
	for _, i := range order {
		c := &calls[i]
		e := &entries[c.entry]
		if e.tool != none && sameCall(c, &calls[e.tool], entries) {
			c.layerOf = e.tool
			l.inner = append(l.inner, i)
			continue
		}
		outer = append(outer, i)
	}
	if len(l.inner) == 0 {
		return outer
	}
	slices.SortFunc(l.inner, func(a, b int32) int {
		return cmp.Or(cmp.Compare(entries[calls[a].entry].end, entries[calls[b].entry].end), cmp.Compare(a, b))
	})
	for _, i := range l.inner {
		calls[calls[i].layerOf].last = i
	}
	for _, i := range l.inner {
		above := &calls[calls[i].layerOf]
		if madeAlike(&entries[calls[i].entry], &entries[calls[above.last].entry]) {
			above.repeats++
		}
	}
	for _, i := range outer {
		l.adopt(i, entries, calls, write)
	}
	for _, i := range l.inner {
		id := entries[calls[l.top(i, calls)].entry].id
		entries[calls[i].entry].span.Attributes().PutStr(attrLayerOf, id.String())
	}
	return outer
}

// top is the call that a layer belongs to. It shortens the way for the next that asks.
func (l *layers) top(i int32, calls []call) int32 {
	l.path = l.path[:0]
	for calls[i].layerOf != none {
		l.path = append(l.path, i)
		i = calls[i].layerOf
	}
	for _, j := range l.path {
		calls[j].layerOf = i
	}
	return i
}

func sameCall(inner, above *call, entries []entry) bool {
	if inner.tool != above.tool || inner.tool == "" {
		return false
	}
	if inner.id != "" && above.id != "" {
		return inner.id == above.id
	}
	return !madeAlike(&entries[inner.entry], &entries[above.entry])
}

func madeAlike(a, b *entry) bool { return a.scope == b.scope && a.kind == b.kind }

// adopt gives a call whose own span saw no failure the verdict of its last layer, from the innermost up.
// A verdict that the tool's owner wrote is never touched.
func (l *layers) adopt(i int32, entries []entry, calls []call, write func(ptrace.Span, *verdict)) {
	l.path = l.path[:0]
	for j := i; j != none; j = calls[j].last {
		l.path = append(l.path, j)
	}
	for _, j := range slices.Backward(l.path) {
		c := &calls[j]
		if c.last == none || c.source == ours || c.outcome != outcomeOK {
			continue
		}
		below := calls[c.last].verdict
		switch below.outcome {
		case outcomeOK, outcomeNotExecuted:
			continue
		case outcomeError, outcomeWarning:
			if !isErrorType(below.errorType) {
				continue
			}
			below.errorCode = slug(below.errorCode)
			below.detail = firstText(below.detail, below.errorCode)
		}
		c.verdict = below
		write(entries[c.entry].span, &c.verdict)
	}
}

// retries are the attempts after the first: as the guard counted them, or as layers repeat below one call.
func (c *call) retries() int64 {
	if c.attempts > 1 {
		return c.attempts - 1
	}
	if c.source != ours && c.repeats > 1 {
		return c.repeats - 1
	}
	return 0
}
