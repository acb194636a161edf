// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"cmp"
	"encoding/binary"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

const none = int32(-1)

// entry is one span of the group in hand.
type entry struct {
	span      ptrace.Span
	id        pcommon.SpanID
	parentID  pcommon.SpanID
	start     pcommon.Timestamp
	end       pcommon.Timestamp
	scope     string
	call      int32 // index of its call, or none
	group     int32 // number of its trace
	parent    int32 // its parent in the group, or none
	tool      int32 // the nearest tool call above it with no own work between, or none
	state     walk
	kind      ptrace.SpanKind
	model     bool
	ownWork   bool // begins a model's or an agent's own work, and is no tool call
	warned    bool // carries a warning, on whatever kind of span
	judged    bool // carries a trace's verdict, an earlier tier's or a made up one
	duplicate bool
}

// walk is how far the search for ancestors got with a span.
type walk uint8

const (
	unseen walk = iota
	onPath
	done
)

// tree is a trace's spans with their parents found.
type tree struct {
	entries []entry
	byID    map[uint64]int32 // by the id's bytes as a number, which hashes faster
	path    []int32
	root    int32 // the span without a parent that starts first, or none
	orphan  int32 // the span whose parent is missing that starts first, or none
	orphans int
	odd     int64 // duplicate ids, spans without an id, cycles
}

// build finds parents, root and orphans. A span whose id came before is a copy and counts for nothing.
func (t *tree) build(entries []entry) {
	t.entries = entries
	t.root, t.orphan, t.orphans, t.odd = none, none, 0, 0
	if t.byID == nil {
		t.byID = make(map[uint64]int32, len(entries))
	}
	clear(t.byID)
	for i := range entries {
		e := &entries[i]
		if e.id.IsEmpty() {
			t.odd++
			continue
		}
		id := number(e.id)
		if _, exists := t.byID[id]; exists {
			e.duplicate = true
			t.odd++
			continue
		}
		t.byID[id] = int32(i)
	}
	for i := range entries {
		t.link(int32(i))
	}
	for i := range entries {
		t.climb(int32(i))
	}
}

func number(id pcommon.SpanID) uint64 { return binary.NativeEndian.Uint64(id[:]) }

func (t *tree) link(i int32) {
	e := &t.entries[i]
	e.parent, e.tool = none, none
	if e.duplicate {
		e.state = done
		return
	}
	if e.parentID.IsEmpty() {
		t.root = t.earlier(t.root, i)
		return
	}
	parent, found := t.byID[number(e.parentID)]
	if !found {
		t.orphans++
		t.orphan = t.earlier(t.orphan, i)
		return
	}
	e.parent = parent
}

func (t *tree) earlier(a, b int32) int32 {
	if a != none && t.entries[a].start <= t.entries[b].start {
		return a
	}
	return b
}

// climb finds the tool call that a span is part of, and above all on its way up, each once. A way that
// returns to itself is cut there.
func (t *tree) climb(i int32) {
	path := t.path[:0]
	for i != none && t.entries[i].state == unseen {
		t.entries[i].state = onPath
		path = append(path, i)
		i = t.entries[i].parent
	}
	if i != none && t.entries[i].state == onPath {
		t.odd++
		t.entries[path[len(path)-1]].parent = none
	}
	for _, j := range slices.Backward(path) {
		e := &t.entries[j]
		e.state = done
		if e.parent == none {
			continue
		}
		switch above := &t.entries[e.parent]; {
		case above.call != none:
			e.tool = above.call
		case !above.ownWork:
			e.tool = above.tool
		}
	}
	t.path = path
}

// carrier is the span that a summary is written on: the root, else the topmost span there is.
func (t *tree) carrier() int32 {
	switch {
	case t.root != none:
		return t.root
	case t.orphan != none:
		return t.orphan
	}
	first := none
	for i := range t.entries {
		first = t.earlier(first, int32(i))
	}
	return first
}

// sortByStart orders calls by start, then as they came.
func sortByStart(order []int32, calls []call, entries []entry) {
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(entries[calls[a].entry].start, entries[calls[b].entry].start), cmp.Compare(a, b))
	})
}
