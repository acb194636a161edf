// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// slot numbers an attribute that some rule reads.
type slot uint8

// The slots of our own vocabulary; those of rules.yaml follow.
const (
	slotOutcome slot = iota
	slotToolName
	slotCallID
	slotErrorType
	slotErrorCode
	slotErrorDetail
	slotSemconvError
	slotRetryable
	slotWarningType
	slotWarningMessage
	slotHTTPStatus
	slotAttempts
	slotArgumentsHash
	slotTruncated
	slotArguments
	slotOperation
	slotNormalisedFrom
	slotTraceOutcome
	slotTraceVerdict
	ownSlots
)

var ownKeys = [ownSlots]string{
	attrOutcome, attrToolName, attrToolCallID, attrErrorType, attrErrorCode, attrErrorDetail,
	attrSemconvError, attrRetryable, attrWarningType, attrWarningMessage, attrHTTPStatus, attrAttempts,
	attrArgumentsHash, attrTruncatedBytes, attrArguments, attrOperationName, attrNormalisedFrom, attrTraceOutcome,
	attrTraceVerdict,
}

const maxSlots = 64

// slotSet is a set of slots.
type slotSet uint64

func (s *slotSet) add(x slot)     { *s |= 1 << x }
func (s slotSet) has(x slot) bool { return s&(1<<x) != 0 }

// keyTable finds the slot of an attribute's key. Most keys of most spans are none of ours, so the length,
// which is at hand, turns them away first.
type keyTable struct {
	byLength [48][]keyEntry
	names    []string
	prefixes []string
	first    [256]bool // first bytes of prefixes
}

type keyEntry struct {
	key  string
	slot slot
}

func newKeyTable() keyTable {
	var t keyTable
	for _, key := range ownKeys {
		t.slot(key)
	}
	return t
}

// slot of a key, given out on first asking. It panics only on a rules.yaml that does not fit, which the
// tests load.
func (t *keyTable) slot(key string) slot {
	bucket := &t.byLength[len(key)]
	for _, e := range *bucket {
		if e.key == key {
			return e.slot
		}
	}
	if len(t.names) == maxSlots {
		panic("rules.yaml names more attributes than a slotSet holds")
	}
	s := slot(len(t.names))
	t.names = append(t.names, key)
	*bucket = append(*bucket, keyEntry{key, s})
	return s
}

// prefix marks the spans that have a key with this prefix as model spans.
func (t *keyTable) prefix(p string) {
	t.prefixes = append(t.prefixes, p)
	t.first[p[0]] = true
}

// whole marks the spans that have this very key as model spans.
func (t *keyTable) whole(key string) { t.prefix(key) }

// facts are the attributes of one span that some rule reads. It is reused from span to span.
type facts struct {
	present slotSet
	values  [maxSlots]pcommon.Value
	model   bool // lists calls that a model asked for, or their answers
	odd     bool // some attribute has the wrong type or an absurd length
}

// scan reads the attributes of one span, once.
func (t *keyTable) scan(attributes pcommon.Map, f *facts) {
	f.present, f.model, f.odd = 0, false, false
	for key, value := range attributes.All() {
		if len(key) < len(t.byLength) {
			for i := range t.byLength[len(key)] {
				e := &t.byLength[len(key)][i]
				if e.key == key {
					if !f.present.has(e.slot) {
						f.present.add(e.slot)
						f.values[e.slot] = value
					}
					break
				}
			}
		}
		if !f.model && len(key) > 0 && t.first[key[0]] {
			f.model = t.startsAny(key)
		}
	}
}

func (t *keyTable) startsAny(key string) bool {
	for _, p := range t.prefixes {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// text of a slot; a value of another type is none, and odd.
func (f *facts) text(s slot) string {
	if !f.present.has(s) {
		return ""
	}
	if f.values[s].Type() != pcommon.ValueTypeStr {
		f.odd = true
		return ""
	}
	return f.values[s].Str()
}

// name of a slot: text that becomes a label, so an absurd length is odd and cut.
func (f *facts) name(s slot) string {
	value := f.text(s)
	if len(value) > maxName {
		f.odd = true
		return text(value, maxName)
	}
	return value
}

func (f *facts) integer(s slot) (int64, bool) {
	if !f.present.has(s) {
		return 0, false
	}
	if f.values[s].Type() != pcommon.ValueTypeInt {
		f.odd = true
		return 0, false
	}
	return f.values[s].Int(), true
}

func (f *facts) truth(s slot) ternary {
	if !f.present.has(s) {
		return unknown
	}
	if f.values[s].Type() != pcommon.ValueTypeBool {
		f.odd = true
		return unknown
	}
	return ternaryOf(f.values[s].Bool())
}
