// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"strings"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// maxAsked bounds the call ids that are remembered of one trace.
const maxAsked = 10_000

// modelCalls matches the tool calls that models asked for with the answers they got.
type modelCalls struct {
	asked    map[string]string // call id -> tool, where known
	answered map[string]struct{}
	blind    bool // some answers could not be read, so nothing can be said to be missing
}

// unanswered counts call ids that a model span lists and that nothing in the trace answers: no span of a
// tool call has the id, and no later message to a model brings a result for it. The claim is made only
// where answers are seen at all: with no ids on tool spans and no messages captured, nothing is known.
func (m *modelCalls) unanswered(r *rules, entries []entry, calls []call, limit int) int64 {
	m.reset()
	for i := range entries {
		if e := &entries[i]; e.model && !e.duplicate {
			m.read(r, e.span.Attributes(), limit)
		}
	}
	if m.blind || len(m.asked) == 0 {
		return 0
	}
	for i := range entries {
		if c := entries[i].call; c != none && calls[c].id != "" {
			m.answered[calls[c].id] = struct{}{}
		}
	}
	if len(m.answered) == 0 {
		return 0
	}
	var missing int64
	for id, tool := range m.asked {
		if _, ok := m.answered[id]; !ok && !r.frameworkAnswers(tool) {
			missing++
		}
	}
	return missing
}

func (m *modelCalls) reset() {
	if m.asked == nil {
		m.asked, m.answered = map[string]string{}, map[string]struct{}{}
	}
	clear(m.asked)
	clear(m.answered)
	m.blind = false
}

func (m *modelCalls) read(r *rules, attributes pcommon.Map, limit int) {
	for key, value := range attributes.All() {
		switch {
		case key == r.messageAsked.Attribute:
			_ = eachPart(value, limit, r.messageAsked.Type, m.ask)
		case key == r.messageAnswer.Attribute:
			m.blind = !eachPart(value, limit, r.messageAnswer.Type, m.answer) || m.blind
		case value.Type() == pcommon.ValueTypeStr:
			m.readFlat(r, attributes, key, value.Str())
		}
	}
}

func (m *modelCalls) readFlat(r *rules, attributes pcommon.Map, key, id string) {
	for i := range r.asked {
		if stem, ok := r.asked[i].stem(key); ok {
			tool := ""
			if name, ok := attributes.Get(stem + r.asked[i].Name); ok {
				tool = name.AsString()
			}
			m.ask(id, tool)
			return
		}
	}
	for i := range r.answered {
		if _, ok := r.answered[i].stem(key); ok {
			m.answer(id, "")
			return
		}
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

func (m *modelCalls) ask(id, tool string) {
	if id != "" && len(id) <= maxName && len(m.asked) < maxAsked {
		m.asked[id] = tool
	}
}

func (m *modelCalls) answer(id, _ string) {
	if len(m.answered) >= maxAsked || len(id) > maxName {
		m.blind = true
		return
	}
	if id != "" {
		m.answered[id] = struct{}{}
	}
}

// eachPart calls fn with the id and name of every message part of a kind; messages are a JSON string or a
// structured value. It reports whether they could be read to the end.
func eachPart(value pcommon.Value, limit int, kind string, fn func(id, name string)) bool {
	switch value.Type() {
	case pcommon.ValueTypeStr:
		json := value.Str()
		if len(json) > limit || !gjson.Valid(json) {
			return false
		}
		gjson.Parse(json).ForEach(func(_, message gjson.Result) bool {
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
	return true
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
