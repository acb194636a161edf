// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var vectorsPath = filepath.Join("..", "..", "tests", "vectors", "verdicts.json")

type vector struct {
	ID       string         `json:"id"`
	Expect   map[string]any `json:"expect"`
	Returned any            `json:"returned"`
}

func loadVectors(t *testing.T) []vector {
	t.Helper()
	data, err := os.ReadFile(vectorsPath)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: this is not a checkout of the whole project", vectorsPath)
	}
	require.NoError(t, err)
	var file struct {
		Cases []vector `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(data, &file))
	require.NotEmpty(t, file.Cases)
	return file.Cases
}

// raised is a span as an instrumentation records an exception: status ERROR and one event.
func raised(class string) sp {
	return sp{status: statusError, exceptions: []attrs{{"exception.type": class, "exception.message": "m"}}}
}

func raisedWith(class string, status int64) sp {
	s := raised(class)
	s.attributes = attrs{"http.response.status_code": status}
	return s
}

func errorType(value string) sp { return sp{attributes: attrs{"error.type": value}} }

// told are the vectors of which a foreign span carries enough to tell the verdict: as which span.
var told = map[string]sp{
	"plain-value":                  {},
	"none":                         {},
	"silent-error-dict":            {},
	"error-null":                   {},
	"text-says-error":              {},
	"value-error":                  raised("ValueError"),
	"key-error":                    raised("KeyError"),
	"file-not-found":               raised("FileNotFoundError"),
	"permission":                   raised("PermissionError"),
	"timeout-builtin":              raised("TimeoutError"),
	"timeout-asyncio":              raised("asyncio.exceptions.TimeoutError"),
	"refused":                      raised("ConnectionRefusedError"),
	"reset":                        raised("ConnectionResetError"),
	"dns":                          raised("socket.gaierror"),
	"tls":                          raised("ssl.SSLCertVerificationError"),
	"httpx-connect":                raised("httpx.ConnectError"),
	"httpx-read-timeout":           raised("httpx.ReadTimeout"),
	"httpx-400":                    raisedWith("httpx.HTTPStatusError", 400),
	"httpx-401":                    raisedWith("httpx.HTTPStatusError", 401),
	"httpx-403":                    raisedWith("httpx.HTTPStatusError", 403),
	"httpx-404":                    raisedWith("httpx.HTTPStatusError", 404),
	"httpx-408":                    raisedWith("httpx.HTTPStatusError", 408),
	"httpx-409":                    raisedWith("httpx.HTTPStatusError", 409),
	"httpx-422":                    raisedWith("httpx.HTTPStatusError", 422),
	"httpx-425":                    raisedWith("httpx.HTTPStatusError", 425),
	"httpx-429":                    raisedWith("httpx.HTTPStatusError", 429),
	"httpx-500":                    raisedWith("httpx.HTTPStatusError", 500),
	"httpx-501":                    raisedWith("httpx.HTTPStatusError", 501),
	"httpx-502":                    raisedWith("httpx.HTTPStatusError", 502),
	"httpx-503":                    raisedWith("httpx.HTTPStatusError", 503),
	"httpx-504":                    raisedWith("httpx.HTTPStatusError", 504),
	"httpx-529":                    raisedWith("httpx.HTTPStatusError", 529),
	"requests-503":                 raisedWith("requests.exceptions.HTTPError", 503),
	"urllib-404":                   raisedWith("urllib.error.HTTPError", 404),
	"aiohttp-500":                  raisedWith("aiohttp.client_exceptions.ClientResponseError", 500),
	"duck-status":                  raisedWith("shop.E", 429),
	"digits-in-prose":              raised("RuntimeError"),
	"port-in-prose":                raised("OSError"),
	"json-decode":                  raised("json.decoder.JSONDecodeError"),
	"unicode":                      raised("UnicodeDecodeError"),
	"pydantic-in-body":             raised("pydantic_core._pydantic_core.ValidationError"),
	"type-error-in-body":           raised("TypeError"),
	"openai-rate-limit":            raised("openai.RateLimitError"),
	"anthropic-overloaded":         raisedWith("anthropic.APIStatusError", 529),
	"openai-connection":            raised("openai.APIConnectionError"),
	"mcp-closed":                   errorType("-32000"),
	"mcp-invalid-params":           errorType("-32602"),
	"mcp-internal":                 errorType("-32603"),
	"mcp-is-error":                 errorType("tool_error"),
	"cancelled":                    raised("asyncio.exceptions.CancelledError"),
	"keyboard-interrupt":           raised("KeyboardInterrupt"),
	"generator-closed":             raised("GeneratorExit"),
	"empty-message":                {status: statusError, exceptions: []attrs{{"exception.type": "ValueError", "exception.message": ""}}},
	"status-that-is-no-http":       raised("shop.E"),
	"own-exception-from-key-error": raised("shop.UnknownCity"),
	"context-is-not-cause":         raised("ValueError"),
	"body-set-error":               {status: statusError, message: "set by the body"},
}

// untold are the vectors of which a foreign span carries too little, and what it lacks.
var untold = map[string]string{
	"declared-error":           "a declaration needs the SDK: nothing of it is on a foreign span",
	"declared-warning":         "a declaration needs the SDK: nothing of it is on a foreign span",
	"code-not-a-slug":          "a declaration needs the SDK: nothing of it is on a foreign span",
	"code-empty":               "a declaration needs the SDK: nothing of it is on a foreign span",
	"declared-outranks-schema": "a declaration needs the SDK: nothing of it is on a foreign span",
	"cause-chain":              "causes are in the stack's text only, and text is not read: the outermost class names the code",
	"group":                    "the members of a group are in the stack's text only: exception_group",
	"openai-quota":             "the provider's own code is in the body; the class is the rate limit's: rate_limited",
	"pydantic-arguments":       "the class is the one raised inside a body: transform, validation_error",
	"missing-argument":         "a TypeError, as a body raises it: tool_declared, type_error",
	"malformed-json-arguments": "a JSONDecodeError, as a body raises it: transform, json_decode_error",
	"unknown-tool":             "most frameworks make no span; MCP answers with isError (tool_declared, tool_error) or -32602 (invalid_arguments)",
	"result-schema-error":      "only the SDK enforces a result schema",
	"result-schema-warn":       "only the SDK enforces a result schema",
	"circuit-open":             "only our guard refuses a call",
	"policy-denied":            "only our guard refuses a call",
	"budget-exhausted":         "only our guard refuses a call",
	"control-flow":             "a class of the user's own, listed nowhere: tool_declared, needs_approval",
}

// Every shared vector is told by a foreign span, or listed with what such a span lacks.
func TestSharedVectors(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range loadVectors(t) {
		seen[v.ID] = true
		s, tells := told[v.ID]
		_, lacks := untold[v.ID]
		assert.NotEqual(t, tells, lacks, "%s: list it as told or as untold", v.ID)
		if !tells {
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			for _, source := range []attrs{openinference, traceloop, genai, mcp} {
				s := s
				s.name = "x"
				s.attributes = source.with(s.attributes)
				if v.Returned != nil && s.status == statusUnset {
					result, err := json.Marshal(v.Returned)
					require.NoError(t, err)
					s.attributes["gen_ai.tool.call.result"] = string(result)
				}
				v.check(t, s)
			}
		})
	}
	for id := range told {
		assert.True(t, seen[id], "%s is no vector", id)
	}
	for id := range untold {
		assert.True(t, seen[id], "%s is no vector", id)
	}
}

func (v vector) check(t *testing.T, s sp) {
	t.Helper()
	span := judge(t, s)
	for _, pair := range [][2]string{
		{"outcome", attrOutcome}, {"errorType", attrErrorType}, {"errorCode", attrErrorCode},
	} {
		assert.Equal(t, v.Expect[pair[0]], get(span, pair[1]), pair[0])
	}
	if want, fixed := v.Expect["retryable"]; fixed {
		assert.Equal(t, want, get(span, attrRetryable), "retryable")
	}
	if want, fixed := v.Expect[attrHTTPStatus]; fixed {
		assert.EqualValues(t, want, get(span, attrHTTPStatus), attrHTTPStatus)
	}
	if v.Expect["outcome"] == "error" {
		assert.Equal(t, statusError, span.Status().Code())
		assert.NotEmpty(t, get(span, attrErrorDetail))
	}
}

// The README lists what a foreign span cannot tell, and nothing else.
func TestTheREADMEListsWhatCannotBeTold(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var ids []string
	for id := range untold {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		assert.Contains(t, string(readme), "| `"+id+"` | "+untold[id]+" |")
	}
	for id := range told {
		assert.NotContains(t, string(readme), "| `"+id+"` |")
	}
}
