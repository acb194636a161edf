// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"strings"
	"unicode/utf8"
)

// outcome is how a call ended; the zero value means that the span is no tool call.
type outcome uint8

const (
	outcomeNone outcome = iota
	outcomeOK
	outcomeWarning
	outcomeError
	outcomeCancelled
	outcomeInterrupted
	outcomeClosed
	outcomeNotExecuted
	outcomeCount
)

var outcomeNames = [outcomeCount]string{
	"", "ok", "warning", "error", "cancelled", "interrupted", "closed", "not_executed",
}

func (o outcome) String() string { return outcomeNames[o] }

func parseOutcome(name string) outcome {
	for o := outcomeOK; o < outcomeCount; o++ {
		if outcomeNames[o] == name {
			return o
		}
	}
	return outcomeNone
}

// ended tells whether a call was ended from outside or on purpose, which is no error.
func (o outcome) ended() bool {
	return o == outcomeCancelled || o == outcomeInterrupted || o == outcomeClosed
}

// The closed list of error types.
const (
	typeTransport      = "transport"
	typeHTTPStatus     = "http_status"
	typeToolDeclared   = "tool_declared"
	typeSchemaMismatch = "schema_mismatch"
	typeTransform      = "transform"
	typeProviderError  = "provider_error"
)

func isErrorType(name string) bool {
	switch name {
	case typeTransport, typeHTTPStatus, typeToolDeclared, typeSchemaMismatch, typeTransform, typeProviderError:
		return true
	}
	return false
}

// ternary is a bool that may be unknown.
type ternary uint8

const (
	unknown ternary = iota
	no
	yes
)

func ternaryOf(b bool) ternary {
	if b {
		return yes
	}
	return no
}

// verdict is what a span says about one call.
type verdict struct {
	outcome   outcome
	errorType string
	errorCode string
	detail    string
	retryable ternary
	status    int64 // an HTTP status, 0 where there is none
}

const (
	codeUnspecified = "unspecified"
	codeToolError   = "tool_error"
	codeSpanError   = "span_error"

	maxCode        = 64
	maxName        = 256
	maxAttempts    = 1_000_000
	maxClass       = 1024
	maxDetail      = 1024
	maxDescription = 256
)

// className is the last part of a dotted class name in any language's spelling.
func className(dotted string) string {
	if len(dotted) > maxClass {
		dotted = dotted[len(dotted)-maxClass:]
	}
	if i := strings.LastIndexAny(dotted, ".$:/"); i >= 0 {
		dotted = dotted[i+1:]
	}
	return dotted
}

// snake is a class name as an errorCode: `HTTPStatusError` is http_status_error. Anything that is no
// letter or digit separates words; nothing left is "unspecified".
func snake(name string) string {
	if len(name) > maxName {
		name = name[:maxName]
	}
	out := make([]byte, 0, len(name)+8)
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case isUpper(c):
			afterWord := i > 0 && (isLower(name[i-1]) || isDigit(name[i-1]))
			endsAcronym := i > 0 && isUpper(name[i-1]) && i+1 < len(name) && isLower(name[i+1])
			if afterWord || endsAcronym {
				out = separate(out)
			}
			out = append(out, c+'a'-'A')
		case isLower(c), isDigit(c):
			out = append(out, c)
		default:
			out = separate(out)
		}
	}
	if len(out) > maxCode {
		out = out[:maxCode]
	}
	for len(out) > 0 && out[len(out)-1] == '_' {
		out = out[:len(out)-1]
	}
	if len(out) == 0 {
		return codeUnspecified
	}
	return string(out)
}

func separate(out []byte) []byte {
	if len(out) == 0 || out[len(out)-1] == '_' {
		return out
	}
	return append(out, '_')
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// slug is an owner's code as an errorCode: unchanged where it is one already.
func slug(code string) string {
	if code == "" || len(code) > maxCode {
		return snake(code)
	}
	for i := 0; i < len(code); i++ {
		if c := code[i]; !isLower(c) && !isDigit(c) && c != '_' {
			return snake(code)
		}
	}
	return code
}

// text bounds what is written for a person, cut between characters and free of what backends reject.
func text(s string, limit int) string {
	if len(s) > limit {
		end := limit
		for end > 0 && end > limit-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
		if len(s) > limit {
			return text(s, limit)
		}
	}
	return s
}
