// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

// storm is the worst repetition over a threshold in one trace; no calls: none.
type storm struct {
	tool      string
	calls     int64
	identical bool // the same arguments every time
}

// callKey is what makes two calls the same: the tool, and the arguments where they are known.
type callKey struct {
	tool string
	args argsKey
}

// repetition is what happened so far to one callKey.
type repetition struct {
	calls       int64
	notExecuted int64 // calls that did not run, each of which may be sent again
	last        int32 // position in the order of the last call that ran, or none
	excused     bool  // a resend after a dependency failure was exempt; the next is not
}

// storms finds calls made too often and failures that were asked for again unchanged.
type storms struct {
	perTool map[string]int64
	perCall map[callKey]*repetition
	pool    []repetition
}

// codeCircuitOpen is what our guard says where it refused a call: nothing ran, and nobody was asked.
const codeCircuitOpen = "circuit_open"

// neighbours is how many calls around a failed one are looked at for the one it depended on: the calls of
// one turn of a model stand together.
const neighbours = 64

// find walks the calls in order of their start. Exempt are resends of calls that did not run, and the first
// resend after a dependency failure. Without known arguments only the claim per tool is made.
func (s *storms) find(cfg *StormConfig, order []int32, calls []call, entries []entry) (worst storm, wrongRetries int64) {
	if len(order) < 2 {
		return storm{}, 0
	}
	s.reset(len(order))
	for position, i := range order {
		c := &calls[i]
		key := callKey{c.tool, c.args}
		seen := s.perCall[key]
		if seen == nil {
			s.pool = append(s.pool, repetition{last: none})
			seen = &s.pool[len(s.pool)-1]
			s.perCall[key] = seen
		}
		if c.outcome == outcomeNotExecuted || c.errorCode == codeCircuitOpen {
			seen.notExecuted++
			continue
		}
		exempt := false
		switch {
		case seen.notExecuted > 0:
			seen.notExecuted--
			exempt = true
		case seen.last != none && key.args.known && after(seen.last, int32(position), order, calls, entries):
			previous := &calls[order[seen.last]]
			if previous.outcome != outcomeError {
				break
			}
			if !seen.excused && dependency(seen.last, int32(position), order, calls, entries) {
				seen.excused, exempt = true, true
			} else if previous.retryable == no {
				wrongRetries++
			}
		}
		seen.last = int32(position)
		if exempt {
			continue
		}
		seen.calls++
		s.perTool[c.tool]++
		worst.take(cfg, c.tool, seen.calls, key.args.known, s.perTool[c.tool])
	}
	return worst, wrongRetries
}

func (s *storms) reset(calls int) {
	if s.perTool == nil {
		s.perTool, s.perCall = map[string]int64{}, map[callKey]*repetition{}
	}
	clear(s.perTool)
	clear(s.perCall)
	if cap(s.pool) < calls {
		s.pool = make([]repetition, 0, calls) // never grows while pointers into it are held
	}
	s.pool = s.pool[:0]
}

// take keeps the worst: identical calls before calls of one tool, then the most.
func (w *storm) take(cfg *StormConfig, tool string, same int64, known bool, all int64) {
	if limit := int64(cfg.IdenticalCalls); limit > 0 && known && same > limit && (!w.identical || same > w.calls) {
		*w = storm{tool, same, true}
	}
	if limit := int64(cfg.CallsPerTool); limit > 0 && !w.identical && all > limit && all > w.calls {
		*w = storm{tool, all, false}
	}
}

// after tells whether a call began when an earlier one was over.
func after(earlier, later int32, order []int32, calls []call, entries []entry) bool {
	return entries[calls[order[later]].entry].start >= entries[calls[order[earlier]].entry].end
}

// dependency tells whether a call failed while another tool's call, which went well afterwards, overlapped
// it, so that sending it again was right. Which tools write is not on the spans, so any other tool counts.
func dependency(failed, resend int32, order []int32, calls []call, entries []entry) bool {
	f := &calls[order[failed]]
	span := &entries[f.entry]
	again := entries[calls[order[resend]].entry].start
	for p := max(0, failed-neighbours); p < min(int32(len(order)), failed+neighbours); p++ {
		other := &calls[order[p]]
		if other.tool == f.tool || (other.outcome != outcomeOK && other.outcome != outcomeWarning) {
			continue
		}
		o := &entries[other.entry]
		if o.start < span.end && o.end > span.start && o.end >= span.end && o.end <= again {
			return true
		}
	}
	return false
}

func (s *storms) forget() {
	clear(s.perTool)
	clear(s.perCall)
}
