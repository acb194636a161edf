// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"context"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/acrux-otel/acrux-otel/collector-config/toolverdictprocessor/internal/metadata"
)

// toolVerdict is the processor. What it works with on one batch is in a workspace, so that batches can be
// worked on at the same time and nothing outlives its batch.
type toolVerdict struct {
	cfg    *Config
	rules  *rules
	counts *counts
	spaces sync.Pool
}

func newToolVerdict(set component.TelemetrySettings, cfg *Config) (*toolVerdict, error) {
	r, err := loadRules()
	if err != nil {
		return nil, err
	}
	telemetry, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	p := &toolVerdict{cfg: cfg, rules: r, counts: newCounts(telemetry, r)}
	p.spaces.New = func() any { return newWorkspace(cfg, r) }
	return p, nil
}

func (p *toolVerdict) process(ctx context.Context, td ptrace.Traces) (ptrace.Traces, error) {
	w := p.spaces.Get().(*workspace)
	w.read(td)
	if p.cfg.Rollup {
		w.rollUp()
	}
	p.counts.add(ctx, w)
	if w.reset() {
		p.spaces.Put(w)
	}
	return td, nil
}

// workspace holds what one batch needs, reused from batch to batch.
type workspace struct {
	normaliser normaliser
	rollup     rollup
	entries    []entry
	calls      []call
	sorted     []entry
	ids        []pcommon.TraceID // of the batch's traces, as they came
	agents     []bool            // whether a trace is an agent's
	numbers    map[pcommon.TraceID]int32
	starts     []int32

	spans    int64
	rolledUp [outcomeCount][2]int64 // by outcome and partial
}

// keptEntries bounds what a workspace may hold on to after a batch.
const keptEntries = 1 << 14

func newWorkspace(cfg *Config, r *rules) *workspace {
	w := &workspace{numbers: map[pcommon.TraceID]int32{}}
	w.normaliser = normaliser{
		rules: r, write: cfg.Normalise, rollup: cfg.Rollup, overrideOK: cfg.OverrideOK, maxResult: cfg.MaxContentBytes,
		normalised: make([]int64, len(r.sources)),
	}
	w.rollup = rollup{cfg: cfg, rules: r, write: w.normaliser.writeVerdict}
	return w
}

// reset forgets the batch. It reports whether the workspace is small enough to keep.
func (w *workspace) reset() bool {
	if cap(w.entries) > keptEntries {
		return false
	}
	n := &w.normaliser
	clear(n.facts.values[:])
	clear(n.normalised)
	n.malformed, n.okLeft, n.normalisedTo = 0, 0, [outcomeCount]int64{}
	w.rollup.disagreements, w.rollup.malformed = 0, 0
	w.rolledUp = [outcomeCount][2]int64{}
	clear(w.entries)
	clear(w.sorted)
	clear(w.calls)
	clear(w.numbers)
	w.entries, w.sorted, w.calls = w.entries[:0], w.sorted[:0], w.calls[:0]
	w.ids, w.agents, w.spans = w.ids[:0], w.agents[:0], 0
	w.rollup.forget()
	return true
}

// read looks at every span, writes verdicts, and keeps what the rollup needs.
func (w *workspace) read(td ptrace.Traces) {
	keep := w.rollup.cfg.Rollup
	var c call
	for _, resource := range td.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			name := scope.Scope().Name()
			for _, span := range scope.Spans().All() {
				w.spans++
				tool, agent := w.normaliser.read(span, &c)
				if keep {
					w.keep(span, name, tool, agent, &c)
				}
			}
		}
	}
}

func (w *workspace) keep(span ptrace.Span, scope string, tool, agent bool, c *call) {
	group := w.number(span.TraceID())
	at := none
	if tool {
		at = int32(len(w.calls))
		w.calls = append(w.calls, *c)
	}
	if agent {
		w.agents[group] = true
	}
	ownWork := !tool && agent && w.normaliser.ownWork()
	w.entries = append(w.entries, entry{
		span: span, id: span.SpanID(), parentID: span.ParentSpanID(),
		start: span.StartTimestamp(), end: span.EndTimestamp(), scope: scope,
		call: at, group: group, kind: span.Kind(), model: w.normaliser.facts.model, ownWork: ownWork,
		warned: w.normaliser.facts.present.has(slotWarningType),
		judged: w.normaliser.facts.present.has(slotTraceVerdict),
	})
}

// number of a trace in this batch. Behind groupbytrace there is only one.
func (w *workspace) number(id pcommon.TraceID) int32 {
	if last := len(w.ids) - 1; last >= 0 && w.ids[last] == id {
		return int32(last)
	}
	if len(w.ids) > 0 {
		if number, ok := w.numbers[id]; ok {
			// Spans of a trace stand together as a rule; this one came back.
			return number
		}
	}
	number := int32(len(w.ids))
	w.numbers[id] = number
	w.ids = append(w.ids, id)
	w.agents = append(w.agents, false)
	return number
}

// rollUp sums up each agent's trace of the batch.
func (w *workspace) rollUp() {
	groups := int32(len(w.ids))
	if groups == 0 {
		return
	}
	if groups == 1 {
		w.rollUpOne(0, w.entries)
		return
	}
	w.starts = slices.Grow(w.starts[:0], int(groups)+1)[:groups+1]
	clear(w.starts)
	for i := range w.entries {
		w.starts[w.entries[i].group+1]++
	}
	for g := range groups {
		w.starts[g+1] += w.starts[g]
	}
	w.sorted = slices.Grow(w.sorted[:0], len(w.entries))[:len(w.entries)]
	for i := range w.entries {
		at := &w.starts[w.entries[i].group]
		w.sorted[*at] = w.entries[i]
		*at++
	}
	begin := int32(0)
	for g := range groups {
		w.rollUpOne(g, w.sorted[begin:w.starts[g]])
		begin = w.starts[g]
	}
}

func (w *workspace) rollUpOne(group int32, entries []entry) {
	if !w.agents[group] {
		dropVerdicts(entries, none)
		return
	}
	s := w.rollup.group(entries, w.calls)
	partial := 0
	if s.partial {
		partial = 1
	}
	w.rolledUp[s.outcome][partial]++
}
