// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// protocolAttribute is the JSON-RPC error code of an attribute of its own, or 0.
func (n *normaliser) protocolAttribute() int64 {
	for _, s := range n.rules.jsonRPC {
		if !n.facts.present.has(s) {
			continue
		}
		switch value := n.facts.values[s]; value.Type() {
		case pcommon.ValueTypeInt:
			return value.Int()
		case pcommon.ValueTypeStr:
			if parsed, ok := integerText(value.Str()); ok {
				return parsed
			}
		default:
			n.facts.odd = true
		}
	}
	return 0
}

// isProtocol tells whether a number in error.type is a JSON-RPC code: outside MCP only those that JSON-RPC
// reserves, on an MCP span all but HTTP statuses that the table does not know as codes.
func (n *normaliser) isProtocol(number int64) bool {
	if n.facts.present&n.rules.jsonRPCMask == 0 {
		return number >= -32768 && number <= -32000
	}
	return n.rules.jsonRPCCodes[number] != nil || number < 100 || number > 599
}

func (n *normaliser) grpcRule() *classRule {
	for _, s := range n.rules.grpc {
		if code, ok := n.facts.integer(s); ok {
			return n.rules.grpcCodes[code]
		}
	}
	return nil
}

// httpStatus is a typed HTTP status, 100-599, or 0.
func (n *normaliser) httpStatus() int64 {
	for _, s := range n.rules.httpStatus {
		status, ok := n.facts.integer(s)
		switch {
		case !ok:
		case status >= 100 && status <= 599:
			return status
		default:
			n.facts.odd = true
		}
	}
	return 0
}

func (n *normaliser) fieldSaysFailed() bool {
	for _, field := range n.rules.failed {
		if n.facts.present.has(field.slot) && n.facts.text(field.slot) == field.value {
			return true
		}
	}
	return false
}

// resultSaysFailed reads the field by which a serialised framework object says that the call failed.
func (n *normaliser) resultSaysFailed() (string, bool) {
	for i := range n.rules.results {
		r := &n.rules.results[i]
		if !n.facts.present.has(r.slot) || n.facts.values[r.slot].Type() != pcommon.ValueTypeStr {
			continue
		}
		value := n.facts.values[r.slot].Str()
		// "error", "isError", "is_error": without these letters no shape fits.
		if len(value) > n.maxResult || len(value) == 0 || value[0] != '{' || !strings.Contains(value, "rror") {
			continue
		}
		for _, shape := range r.shapes {
			// gjson reads what was cut, or goes on in prose, as far as it goes. The standard library's check
			// does not recurse.
			if shape.fits(value) && json.Valid([]byte(value)) {
				return gjson.Get(value, shape.text).String(), true
			}
		}
	}
	return "", false
}

func (s *resultShape) fits(content string) bool {
	for i := range s.is {
		want := &s.is[i]
		got := gjson.Get(content, want.path)
		switch {
		case want.isBool:
			if !got.IsBool() || got.Bool() != want.truth {
				return false
			}
		case got.Type != gjson.String || got.Str != want.text:
			return false
		}
	}
	for _, p := range s.has {
		if !gjson.Get(content, p).Exists() {
			return false
		}
	}
	return true
}

// lastException is the event of the exception that ended the call: a retried call records one for each try.
func lastException(span ptrace.Span) (ptrace.SpanEvent, bool) {
	events := span.Events()
	for i := events.Len() - 1; i >= 0; i-- {
		if event := events.At(i); event.Name() == eventException {
			return event, true
		}
	}
	return ptrace.SpanEvent{}, false
}

func (n *normaliser) exception(event ptrace.SpanEvent) (class, message string, escaped bool) {
	for key, value := range event.Attributes().All() {
		switch key {
		case attrExceptionType:
			class = n.eventText(value)
		case attrExceptionMessage:
			message = n.eventText(value)
		case attrExceptionEscaped:
			// Python's SDK writes the strings "True" and "False".
			escaped = value.Type() == pcommon.ValueTypeBool && value.Bool() ||
				value.Type() == pcommon.ValueTypeStr && strings.EqualFold(value.Str(), "true")
		}
	}
	if len(class) > maxClass {
		n.facts.odd = true
		class = class[len(class)-maxClass:]
	}
	return class, message, escaped
}

func (n *normaliser) eventText(value pcommon.Value) string {
	if value.Type() != pcommon.ValueTypeStr {
		n.facts.odd = true
		return ""
	}
	return value.Str()
}

func firstText(candidates ...string) string {
	for _, c := range candidates {
		if c != "" {
			return c
		}
	}
	return ""
}

// integerText parses a short decimal integer and nothing else.
func integerText(s string) (int64, bool) {
	if s == "" || len(s) > 11 || (s[0] != '-' && !isDigit(s[0])) {
		return 0, false
	}
	number, err := strconv.ParseInt(s, 10, 64)
	return number, err == nil
}
