// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// maxAsked bounds the call ids that are remembered of one trace.
const maxAsked = 10_000

// modelCalls matches the tool calls that models asked for with the answers they got.
type modelCalls struct {
	open  map[string]string // call ids without an answer so far -> tool, where known
	seen  bool              // some answer was seen, so answers are recorded here
	blind bool              // some answers could not be read, so nothing can be said to be missing
}

// unanswered counts call ids that a model span lists and that nothing in the trace answers: no span of a
// tool call has the id, and no message to a model brings a result for it. The claim is made only where
// answers are seen at all: with no ids on tool spans and no messages captured, nothing is known. Messages
// repeat a whole history, so they are read only where the tool spans leave something open.
func (m *modelCalls) unanswered(r *rules, entries []entry, calls []call, limit int) int64 {
	m.reset()
	for i := range entries {
		if e := &entries[i]; e.model && !e.duplicate {
			m.readAsked(r, e.span.Attributes(), limit)
		}
	}
	if len(m.open) == 0 {
		return 0
	}
	for i := range entries {
		if c := entries[i].call; c != none {
			m.answer(calls[c].id, "")
		}
	}
	for i := range entries {
		if e := &entries[i]; len(m.open) > 0 && e.model && !e.duplicate {
			m.readAnswers(r, e.span.Attributes(), limit)
		}
	}
	if m.blind || !m.seen {
		return 0
	}
	var missing int64
	for _, tool := range m.open {
		if !r.frameworkAnswers(tool) {
			missing++
		}
	}
	return missing
}

func (m *modelCalls) reset() {
	if m.open == nil {
		m.open = map[string]string{}
	}
	clear(m.open)
	m.seen, m.blind = false, false
}

func (m *modelCalls) readAsked(r *rules, attributes pcommon.Map, limit int) {
	for key, value := range attributes.All() {
		if key == r.messageAsked.Attribute {
			eachPart(value, limit, r.messageAsked.Type, m.ask)
			continue
		}
		for i := range r.asked {
			if stem, ok := r.asked[i].stem(key); ok && value.Type() == pcommon.ValueTypeStr {
				tool := ""
				if name, ok := attributes.Get(stem + r.asked[i].Name); ok && name.Type() == pcommon.ValueTypeStr {
					tool = name.Str()
				}
				m.ask(value.Str(), tool)
			}
		}
	}
}

func (m *modelCalls) readAnswers(r *rules, attributes pcommon.Map, limit int) {
	for key, value := range attributes.All() {
		if key == r.messageAnswer.Attribute {
			if value.Type() == pcommon.ValueTypeStr && !readable(value.Str(), limit) {
				m.blind = true
				return
			}
			eachPart(value, limit, r.messageAnswer.Type, m.answer)
			continue
		}
		for i := range r.answered {
			if _, ok := r.answered[i].stem(key); ok && value.Type() == pcommon.ValueTypeStr {
				m.answer(value.Str(), "")
			}
		}
	}
}

// readable tells whether messages are there to the end. The standard library's check does not recurse, so
// hostile nesting costs no stack.
func readable(messages string, limit int) bool {
	return len(messages) <= limit && json.Valid([]byte(messages))
}

func (m *modelCalls) ask(id, tool string) {
	if id != "" && len(id) <= maxName && len(m.open) < maxAsked {
		m.open[id] = tool
	}
}

func (m *modelCalls) answer(id, _ string) {
	if id != "" {
		m.seen = true
		delete(m.open, id)
	}
}

// stem is the key without its suffix, where the row fits the key.
func (k *keyRow) stem(key string) (string, bool) {
	if !strings.HasPrefix(key, k.Prefix) || !strings.HasSuffix(key, k.Suffix) ||
		len(key) < len(k.Prefix)+len(k.Suffix) || !strings.Contains(key, k.Within) {
		return "", false
	}
	return key[:len(key)-len(k.Suffix)], true
}

// eachPart calls fn with the id and name of every message part of a kind; messages are a JSON string or a
// structured value.
func eachPart(value pcommon.Value, limit int, kind string, fn func(id, name string)) {
	switch value.Type() {
	case pcommon.ValueTypeStr:
		messages := value.Str()
		if len(messages) > limit || !strings.Contains(messages, kind) {
			return
		}
		gjson.Parse(messages).ForEach(func(_, message gjson.Result) bool {
			message.Get("parts").ForEach(func(_, part gjson.Result) bool {
				if part.Get("type").Str == kind {
					fn(part.Get("id").Str, part.Get("name").Str)
				}
				return true
			})
			return true
		})
	case pcommon.ValueTypeSlice:
		for _, message := range value.Slice().All() {
			parts, ok := child(message, "parts")
			if !ok || parts.Type() != pcommon.ValueTypeSlice {
				continue
			}
			for _, part := range parts.Slice().All() {
				if of, ok := child(part, "type"); ok && of.Type() == pcommon.ValueTypeStr && of.Str() == kind {
					fn(childText(part, "id"), childText(part, "name"))
				}
			}
		}
	}
}

func child(value pcommon.Value, key string) (pcommon.Value, bool) {
	if value.Type() != pcommon.ValueTypeMap {
		return pcommon.Value{}, false
	}
	return value.Map().Get(key)
}

func childText(value pcommon.Value, key string) string {
	if got, ok := child(value, key); ok && got.Type() == pcommon.ValueTypeStr {
		return got.Str()
	}
	return ""
}
