// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// summary is what one group says of its trace.
type summary struct {
	outcome      outcome
	calls        int64
	failed       int64
	warned       int64
	notExecuted  int64
	retries      int64
	first        int32 // the first failing call, or none
	partial      bool
	storm        storm
	wrongRetries int64
	unanswered   int64
}

// rollup sums one trace up. It is reused from group to group; not safe for concurrent use.
type rollup struct {
	cfg    *Config
	rules  *rules
	write  func(ptrace.Span, *verdict)
	tree   tree
	layers layers
	storms storms
	model  modelCalls
	order  []int32 // the calls of the group that are no layers and no copies

	disagreements int64
	malformed     int64
}

// group sums up the spans of one trace and writes what it found on its root. `calls` is indexed by
// entry.call; an entry's call belongs to the group.
func (r *rollup) group(entries []entry, calls []call) summary {
	r.tree.build(entries)
	r.malformed += r.tree.odd
	r.collect(entries, calls)

	s := summary{first: none}
	r.count(&s, entries, calls)
	carrier := r.tree.carrier()
	r.judgeWholeness(&s, carrier)
	s.storm, s.wrongRetries = r.storms.find(&r.cfg.Storm, r.order, calls, entries)
	if !s.partial {
		s.unanswered = r.model.unanswered(r.rules, entries, calls, r.cfg.MaxContentBytes)
	}
	dropVerdicts(entries, carrier)
	r.writeSummary(&s, &entries[carrier], calls)
	return s
}

// dropVerdicts leaves a trace's verdict to its carrier alone: a trace is counted once, by what is found here.
func dropVerdicts(entries []entry, carrier int32) {
	for i := range entries {
		if entries[i].judged && int32(i) != carrier {
			entries[i].span.Attributes().Remove(attrTraceVerdict)
		}
	}
}

// collect takes stock of the group's calls: of several spans of one call the outermost stands for it.
func (r *rollup) collect(entries []entry, calls []call) {
	r.order = r.order[:0]
	r.layers.reset()
	for i := range entries {
		e := &entries[i]
		if e.call == none || e.duplicate {
			continue
		}
		c := &calls[e.call]
		c.entry = int32(i)
		c.layerOf, c.last, c.repeats = none, none, 0
		r.order = append(r.order, e.call)
	}
	r.order = r.layers.fold(r.order, entries, calls, r.write)
	sortByStart(r.order, calls, entries)
}

func (r *rollup) count(s *summary, entries []entry, calls []call) {
	s.outcome = outcomeOK
	for i := range entries {
		e := &entries[i]
		// The status as it is now: the verdicts are written. Instrumentations paint what was interrupted or
		// cancelled too, and none of these is an error.
		if e.span.Status().Code() == ptrace.StatusCodeError && (e.call == none || !calls[e.call].outcome.ended()) {
			s.outcome = outcomeError
			break
		}
		if e.warned {
			s.outcome = outcomeWarning
		}
	}
	var firstEnd pcommon.Timestamp
	for _, i := range r.order {
		c := &calls[i]
		if c.outcome == outcomeNotExecuted {
			s.notExecuted++
			continue
		}
		s.calls++
		s.retries += c.retries()
		switch c.outcome {
		case outcomeWarning:
			s.warned++
			s.outcome = max(s.outcome, outcomeWarning)
		case outcomeError:
			s.failed++
			s.outcome = outcomeError
			if end := entries[c.entry].end; s.first == none || end < firstEnd {
				s.first, firstEnd = i, end
			}
		}
	}
}

// judgeWholeness tells whether spans of the trace are known, or bound, to be missing from this group.
func (r *rollup) judgeWholeness(s *summary, carrier int32) {
	if r.tree.root == none || r.tree.orphans > 0 {
		s.partial = true
		return
	}
	e := &r.tree.entries[carrier]
	attributes := e.span.Attributes()
	if earlier, ok := attributes.Get(attrPartial); ok && earlier.Type() == pcommon.ValueTypeBool && earlier.Bool() {
		s.partial = true
		return
	}
	if own, ok := attributes.Get(attrCalls); ok && own.Type() == pcommon.ValueTypeInt {
		s.partial = own.Int() > s.calls
		return
	}
	if wait := r.cfg.WaitDuration; wait > 0 && e.end > e.start {
		s.partial = time.Duration(e.end-e.start) > wait
	}
}

func (r *rollup) writeSummary(s *summary, e *entry, calls []call) {
	span := e.span
	w := summaryWriter{attributes: span.Attributes()}
	w.attributes.EnsureCapacity(w.attributes.Len() + 11)
	w.attributes.PutStr(attrTraceVerdict, s.outcome.String())
	w.text(attrTraceOutcome, s.outcome.String())
	w.count(attrCalls, s.calls)
	w.count(attrFailed, s.failed)
	w.count(attrWarned, s.warned)
	w.count(attrNotExecuted, s.notExecuted)
	w.count(attrRetries, s.retries)
	if w.differs {
		r.disagreements++
	}
	if w.odd {
		r.malformed++
	}
	if s.first != none {
		first := &calls[s.first]
		w.text(attrFirstFailed, text(first.tool, maxName))
		if isErrorType(first.errorType) {
			w.text(attrFirstFailedType, first.errorType)
			w.text(attrFirstFailedCode, slug(first.errorCode))
		}
	}
	if s.partial {
		w.attributes.PutBool(attrPartial, true)
	}
	if s.storm.calls > 0 {
		w.attributes.PutBool(attrStorm, true)
		w.attributes.PutStr(attrStormTool, text(s.storm.tool, maxName))
		w.attributes.PutInt(attrStormCalls, s.storm.calls)
		w.attributes.PutBool(attrStormIdentical, s.storm.identical)
	}
	if s.wrongRetries > 0 {
		w.attributes.PutInt(attrWrongRetries, s.wrongRetries)
	}
	if s.unanswered > 0 {
		w.attributes.PutInt(attrUnanswered, s.unanswered)
	}
	if r.cfg.MarkRoot && s.outcome == outcomeError && r.tree.root != none && e.call == none {
		markRoot(span, s, calls)
	}
}

// markRoot makes a root that says nothing say that its trace failed. The status of a tool call is not its to
// set: it tells of that call.
func markRoot(span ptrace.Span, s *summary, calls []call) {
	if span.Status().Code() != ptrace.StatusCodeUnset {
		return
	}
	message := "a span of this trace failed"
	if s.first != none {
		first := &calls[s.first]
		message = fmt.Sprintf("%d of %d tool calls failed, first %s: %s", s.failed, s.calls, text(first.tool, 128), slug(first.errorCode))
	}
	span.Status().SetCode(ptrace.StatusCodeError)
	span.Status().SetMessage(text(message, maxDescription))
}

// summaryWriter puts a summary beside one that may be there: what is there stays, and a difference shows.
type summaryWriter struct {
	attributes pcommon.Map
	differs    bool
	odd        bool
}

func (w *summaryWriter) text(key, value string) {
	got, exists := w.attributes.GetOrPutEmpty(key)
	switch {
	case !exists:
		got.SetStr(value)
	case got.Type() != pcommon.ValueTypeStr:
		w.odd = true
		got.SetStr(value)
	case got.Str() != value:
		w.differs = true
	}
}

func (w *summaryWriter) count(key string, value int64) {
	got, exists := w.attributes.GetOrPutEmpty(key)
	switch {
	case !exists:
		got.SetInt(value)
	case got.Type() != pcommon.ValueTypeInt:
		w.odd = true
		got.SetInt(value)
	case got.Int() != value:
		w.differs = true
	}
}

// forget drops references to the spans of the last group.
func (r *rollup) forget() {
	r.tree.entries = nil
	clear(r.tree.byID)
	r.storms.forget()
	r.model.reset()
}
