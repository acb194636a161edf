// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A tool span of each foreign vocabulary is recognised, named, and says where its verdict comes from.
func TestEverySourceIsRecognised(t *testing.T) {
	for name, s := range map[string]sp{
		"openinference": {name: "x", attributes: openinference},
		"traceloop":     {name: "search.tool", attributes: traceloop},
		"genai":         {name: "execute_tool search", attributes: genai},
		"mcp":           {name: "tools/call search", attributes: mcp},
	} {
		t.Run(name, func(t *testing.T) {
			span := judge(t, s)
			assert.Equal(t, "search", get(span, attrToolName))
			assert.Equal(t, "ok", get(span, attrOutcome))
			assert.Equal(t, name, get(span, attrNormalisedFrom))
			assert.Equal(t, "execute_tool", get(span, attrOperationName))
			assert.Equal(t, statusUnset, span.Status().Code(), "a call that went well is never marked OK")
		})
	}
}

// Where no attribute names the tool, the span's own name does, without its vocabulary's decoration.
func TestTheSpanNameNamesTheToolLast(t *testing.T) {
	for name, s := range map[string]sp{
		"openinference": {name: "search", attributes: attrs{"openinference.span.kind": "TOOL"}},
		"traceloop":     {name: "search.tool", attributes: attrs{"traceloop.span.kind": "tool"}},
		"genai":         {name: "execute_tool search", attributes: attrs{"gen_ai.operation.name": "execute_tool"}},
		"mcp server":    {name: "tools/call search", attributes: attrs{"mcp.method.name": "tools/call"}},
		"mcp client":    {name: "MCP send tools/call search", attributes: attrs{"mcp.method.name": "tools/call"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, "search", get(judge(t, s), attrToolName))
		})
	}
}

// Spans that are no tool calls are passed on as they came, whatever they look like.
func TestOtherSpansAreLeftAlone(t *testing.T) {
	for name, attributes := range map[string]attrs{
		"model":        {"openinference.span.kind": "LLM", "error.type": "ValueError"},
		"chat":         {"gen_ai.operation.name": "chat"},
		"agent":        {"gen_ai.operation.name": "invoke_agent"},
		"workflow":     {"traceloop.span.kind": "workflow"},
		"mcp list":     {"mcp.method.name": "tools/list"},
		"http":         {"http.response.status_code": int64(503)},
		"a wrong type": {"openinference.span.kind": int64(7)},
	} {
		t.Run(name, func(t *testing.T) {
			span := judge(t, sp{name: "x", status: statusError, attributes: attributes})
			assert.Equal(t, map[string]any(attributes), span.Attributes().AsRaw())
		})
	}
}

// A span that carries an outcome is ours and is never normalised again, whatever else it carries.
func TestOurOwnSpansAreNeverNormalised(t *testing.T) {
	attributes := acrux("search", "ok", attrs{"error.type": "ValueError", "openinference.span.kind": "TOOL"})
	span := judge(t, sp{name: "execute_tool search", status: statusError, attributes: attributes})
	assert.Equal(t, map[string]any(attributes), span.Attributes().AsRaw())
}

// Normalising twice is normalising once.
func TestNormalisingIsIdempotent(t *testing.T) {
	td := traceOf(sp{
		name: "x", status: statusError, attributes: openinference,
		exceptions: []attrs{{"exception.type": "httpx.ReadTimeout", "exception.message": "m"}},
	})
	once := run(t, defaults(), td)
	before := spansOf(once)[0].Attributes().AsRaw()
	assert.Equal(t, before, spansOf(run(t, defaults(), once))[0].Attributes().AsRaw())
}

// What a failed call was is told by the exception that ended it, from its dotted class name.
func TestExceptionClassesAreClassified(t *testing.T) {
	for class, want := range map[string][3]any{
		"TimeoutError":                                              failed("transport", "timeout"),
		"httpx.ReadTimeout":                                         failed("transport", "timeout"),
		"ReadTimeout":                                               failed("transport", "timeout"),
		"java.net.SocketTimeoutException":                           failed("transport", "timeout"),
		"ConnectionRefusedError":                                    failed("transport", "connection_refused"),
		"socket.gaierror":                                           failed("transport", "dns"),
		"*net.DNSError":                                             failed("transport", "dns"),
		"ssl.SSLCertVerificationError":                              failed("transport", "tls"),
		"httpx.ConnectError":                                        failed("transport", "connection_error"),
		"json.decoder.JSONDecodeError":                              failed("transform", "json_decode_error"),
		"_csv.Error":                                                failed("transform", "csv_error"),
		"pydantic_core._pydantic_core.ValidationError":              failed("transform", "validation_error"),
		"langgraph.prebuilt.tool_node.ToolInvocationError":          failed("schema_mismatch", "invalid_arguments"),
		"openai.RateLimitError":                                     failed("provider_error", "rate_limited"),
		"anthropic.OverloadedError":                                 failed("provider_error", "http_529"),
		"anthropic.SomethingNewError":                               failed("provider_error", "something_new_error"),
		"openai.APIConnectionError":                                 failed("transport", "connection_error"),
		"cohere.errors.not_found_error.NotFoundError":               failed("provider_error", "http_404"),
		"mistralai.client.errors.sdkerror.SDKError":                 failed("provider_error", "sdk_error"),
		"pydantic_ai.exceptions.ModelHTTPError":                     failed("provider_error", "model_http_error"),
		"pydantic_ai.exceptions.ModelRetry":                         failed("tool_declared", "model_retry"),
		"google.api_core.exceptions.NotFound":                       failed("http_status", "http_404"),
		"httpx.HTTPStatusError":                                     failed("http_status", "http_status_error"),
		"mcp.shared.exceptions.MCPError":                            failed("provider_error", "mcp_error"),
		"ValueError":                                                failed("tool_declared", "value_error"),
		"builtins.KeyError":                                         failed("tool_declared", "key_error"),
		"OSError":                                                   failed("tool_declared", "os_error"),
		"FileNotFoundError":                                         failed("tool_declared", "file_not_found_error"),
		"shop.errors.make.<locals>.OutOfStock":                      failed("tool_declared", "out_of_stock"),
		"com.shop.Orders$NotFoundException":                         failed("tool_declared", "not_found_exception"),
		"*errors.errorString":                                       failed("tool_declared", "error_string"),
		"core::num::ParseIntError":                                  failed("tool_declared", "parse_int_error"),
		"myapp.ReadTimeout":                                         failed("tool_declared", "read_timeout"),
		"???":                                                       failed("tool_declared", "unspecified"),
		"fastmcp.exceptions.NotFoundError":                          failed("schema_mismatch", "unknown_tool"),
		"asyncio.exceptions.CancelledError":                         {"cancelled", nil, nil},
		"langgraph.errors.GraphInterrupt":                           {"interrupted", nil, nil},
		"GeneratorExit":                                             {"closed", nil, nil},
		"exceptiongroup.ExceptionGroup":                             failed("tool_declared", "exception_group"),
		"requests.exceptions.ConnectTimeout":                        failed("transport", "timeout"),
		"System.Net.Sockets.SocketException":                        failed("transport", "connection_error"),
		"aiohttp.client_exceptions.ClientConnectorDNSError":         failed("transport", "dns"),
		"botocore.exceptions.EndpointConnectionError":               failed("transport", "connection_error"),
		"com.fasterxml.jackson.core.JsonParseException":             failed("transform", "json_decode_error"),
		"jsonschema.exceptions.ValidationError":                     failed("transform", "validation_error"),
		"agents.exceptions.ModelBehaviorError":                      failed("schema_mismatch", "invalid_arguments"),
		"litellm.exceptions.Timeout":                                failed("transport", "timeout"),
		"google.genai.errors.ServerError":                           failed("provider_error", "server_error"),
		"pydantic_ai.exceptions.ModelQuotaExceededError":            failed("provider_error", "quota_exhausted"),
		"anthropic.EnforcedSpendLimitReachedError":                  failed("provider_error", "quota_exhausted"),
		"aiohttp.client_exceptions.ClientConnectorCertificateError": failed("transport", "tls"),
		strings.Repeat("a.", 5000) + "Deep":                         failed("tool_declared", "deep"),
		"openaiesque.RateLimitError":                                failed("tool_declared", "rate_limit_error"),
		"urllib3.exceptions.NameResolutionError":                    failed("transport", "dns"),
		"grpc.FutureTimeoutError":                                   failed("transport", "timeout"),
		"UnicodeDecodeError":                                        failed("transform", "unicode_decode_error"),
		"concurrent.futures._base.CancelledError":                   {"cancelled", nil, nil},
		"pydantic_ai.exceptions.ApprovalRequired":                   {"interrupted", nil, nil},
		"requests.exceptions.HTTPError":                             failed("http_status", "http_error"),
		"groq.UnprocessableEntityError":                             failed("provider_error", "http_422"),
		"smolagents.utils.AgentToolCallError":                       failed("schema_mismatch", "invalid_arguments"),
		"System.Security.Authentication.AuthenticationException":    failed("transport", "tls"),
	} {
		t.Run(class[:min(60, len(class))], func(t *testing.T) {
			for _, source := range []attrs{openinference, traceloop, genai, mcp} {
				span := judge(t, sp{
					name: "x", status: statusError, attributes: source,
					exceptions: []attrs{{"exception.type": class, "exception.message": "told 503 times"}},
				})
				assert.Equal(t, want, kindOf(span))
			}
		})
	}
}

// error.type tells where no exception does: a class name, an HTTP status, a JSON-RPC code, a convention's
// word.
func TestErrorTypeIsClassified(t *testing.T) {
	for value, want := range map[string][3]any{
		"tool_error":                 failed("tool_declared", "tool_error"),
		"TOOL_ERROR":                 failed("tool_declared", "tool_error"),
		"_OTHER":                     failed("tool_declared", "unspecified"),
		"ValueError":                 failed("tool_declared", "value_error"),
		"ReadTimeout":                failed("transport", "timeout"),
		"HTTPStatusError":            failed("http_status", "http_status_error"),
		"RateLimitError":             failed("provider_error", "rate_limited"),
		"timeout":                    failed("transport", "timeout"),
		"503":                        failed("http_status", "http_503"),
		"-32602":                     failed("schema_mismatch", "invalid_arguments"),
		"-32603":                     failed("provider_error", "jsonrpc_32603"),
		"-32000":                     failed("transport", "connection_closed"),
		"-32001":                     failed("transport", "timeout"),
		"ECONNREFUSED":               failed("transport", "connection_refused"),
		"UNAVAILABLE":                failed("transport", "connection_error"),
		"server_certificate_invalid": failed("transport", "tls"),
		"schema_mismatch":            failed("schema_mismatch", "unspecified"),
		"CancelledError":             {"cancelled", nil, nil},
		"42":                         failed("tool_declared", "42"),
	} {
		t.Run(value, func(t *testing.T) {
			span := judge(t, sp{name: "x", attributes: genai.with(attrs{"error.type": value})})
			assert.Equal(t, want, kindOf(span))
			assert.Equal(t, value, get(span, attrSemconvError), "the instrumentation's own error.type stays")
		})
	}
}

// On an MCP span every number in error.type is a JSON-RPC code, except one that is an HTTP status.
func TestMCPNumbersAreJSONRPCCodes(t *testing.T) {
	for value, want := range map[string][3]any{
		"-1":  failed("provider_error", "jsonrpc_1"),
		"404": failed("http_status", "http_404"),
		"408": failed("transport", "timeout"),
	} {
		span := judge(t, sp{name: "x", attributes: mcp.with(attrs{"error.type": value})})
		assert.Equal(t, want, kindOf(span), value)
	}
	span := judge(t, sp{name: "x", status: statusError, attributes: mcp.with(attrs{"rpc.response.status_code": "-32603"})})
	assert.Equal(t, failed("provider_error", "jsonrpc_32603"), kindOf(span))
}

// An exception outranks error.type, and a declared failure outranks nothing that the tables know.
func TestTheFirstKnownEvidenceWins(t *testing.T) {
	raised := func(class string) []attrs { return []attrs{{"exception.type": class}} }
	for name, c := range map[string]struct {
		attributes attrs
		exceptions []attrs
		want       [3]any
	}{
		"a known exception before error.type":            {attrs{"error.type": "tool_error"}, raised("httpx.ReadTimeout"), failed("transport", "timeout")},
		"a known error.type before an unknown exception": {attrs{"error.type": "ConnectError"}, raised("shop.Failed"), failed("transport", "connection_error")},
		"an HTTP status before an unknown exception":     {attrs{"http.response.status_code": int64(503)}, raised("shop.Failed"), failed("http_status", "http_503")},
		"an unknown exception before tool_error":         {attrs{"error.type": "tool_error"}, raised("shop.NoSuchRow"), failed("tool_declared", "no_such_row")},
		"a transport exception before a status":          {attrs{"http.response.status_code": int64(503)}, raised("httpx.ReadTimeout"), failed("transport", "timeout")},
		"the owner's errorType before all":               {attrs{"errorType": "transform", "errorCode": "bad_row", "error.type": "timeout"}, raised("ValueError"), failed("transform", "bad_row")},
		"an unknown errorType is nobody's word":          {attrs{"errorType": "Nope"}, raised("ValueError"), failed("tool_declared", "value_error")},
		"an HTTP class takes its status":                 {attrs{"http.status_code": int64(429)}, raised("httpx.HTTPStatusError"), failed("http_status", "http_429")},
		"a provider's class takes its status":            {attrs{"http.response.status_code": int64(502)}, raised("openai.APIStatusError"), failed("provider_error", "http_502")},
		"a provider's 429 is rate_limited":               {attrs{"http.response.status_code": int64(429)}, raised("google.genai.errors.ClientError"), failed("provider_error", "rate_limited")},
		"an MCP class takes its code":                    {attrs{"error.type": "-32001"}, raised("mcp.shared.exceptions.McpError"), failed("transport", "timeout")},
		"gRPC unavailable":                               {attrs{"rpc.grpc.status_code": int64(14)}, nil, failed("transport", "connection_error")},
		"gRPC not found is the service's answer":         {attrs{"rpc.grpc.status_code": int64(5)}, raised("grpc._channel._InactiveRpcError"), failed("tool_declared", "grpc_not_found")},
		"nothing but the status":                         {nil, nil, failed("tool_declared", "span_error")},
		"the last of several exceptions":                 {nil, append(raised("ValueError"), raised("httpx.ReadTimeout")...), failed("transport", "timeout")},
	} {
		t.Run(name, func(t *testing.T) {
			span := judge(t, sp{name: "x", status: statusError, attributes: genai.with(c.attributes), exceptions: c.exceptions})
			assert.Equal(t, c.want, kindOf(span))
		})
	}
}

// What is retryable follows the status or the class, and is unsaid where it is not known.
func TestRetryableIsSaidWhereItIsKnown(t *testing.T) {
	for value, want := range map[string]any{
		"408": true, "425": true, "429": true, "500": true, "502": true, "503": true, "504": true, "529": true,
		"400": false, "404": false, "422": false, "501": false, "599": nil,
		"ConnectError": true, "ReadTimeout": nil, "ConnectTimeout": nil, "ValueError": nil, "-32602": false,
		"SSLError": nil, "SSLCertVerificationError": false, "RateLimitError": true, "JSONDecodeError": false,
	} {
		span := judge(t, sp{name: "x", status: statusError, attributes: genai.with(attrs{"error.type": value})})
		assert.Equal(t, want, get(span, attrRetryable), value)
	}
}

// Prose is never read: neither messages nor results make or classify a failure.
func TestProseIsNeverRead(t *testing.T) {
	for _, result := range []string{
		`Error: 3 lines mention ERROR`, `{"error": "no coordinates"}`, `{"isError": true}`, `{"status": "error"}`,
		`{"error": null, "rows": []}`, `{"content": "isError", "is_error": "true"}`, `{`, `{"isError":true,"content":"x"}`,
		`{"type":"tool","status":"error"}`,
	} {
		span := judge(t, sp{name: "x", attributes: genai.with(attrs{"gen_ai.tool.call.result": result})})
		assert.Equal(t, okVerdict, kindOf(span), result)
	}
	span := judge(t, sp{
		name: "x", status: statusError, message: "HTTP 503 connection refused", attributes: genai,
		exceptions: []attrs{{"exception.type": "RuntimeError", "exception.message": "429 Too Many Requests"}},
	})
	assert.Equal(t, failed("tool_declared", "runtime_error"), kindOf(span))
}

// A framework's own result object that says it failed is believed, also under an OK (field report A05).
func TestDeclaredResultsAreBelieved(t *testing.T) {
	for name, attributes := range map[string]attrs{
		"LangChain under OpenInference": openinference.with(attrs{"output.value": `{"type": "tool", "data": {"content": "no such row", "tool_call_id": "call_1", "type": "tool", "status": "error"}}`}),
		"LangChain under Traceloop":     traceloop.with(attrs{"traceloop.entity.output": `{"output": {"lc": 1, "kwargs": {"content": "no such row", "type": "tool", "tool_call_id": "call_1", "status": "error"}}}`}),
		"MCP isError":                   mcp.with(attrs{"gen_ai.tool.call.result": `{"content":[{"type":"text","text":"no such row"}],"isError":true}`}),
		"MCP is_error":                  traceloop.with(attrs{"traceloop.entity.output": `{"is_error": true, "content": [{"type": "image"}, {"type": "text", "text": "no such row"}]}`}),
		"Anthropic tool_result":         genai.with(attrs{"gen_ai.tool.call.result": `{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"no such row"}`}),
	} {
		t.Run(name, func(t *testing.T) {
			span := judge(t, sp{name: "x", status: statusOK, attributes: attributes})
			assert.Equal(t, failed("tool_declared", "tool_error"), kindOf(span))
			assert.Equal(t, "no such row", get(span, attrErrorDetail))
		})
	}
}

// Empty or wordless MCP content still gives a detail and a description (field report A05).
func TestADetailIsNeverEmpty(t *testing.T) {
	for _, content := range []string{`[]`, `[{"type":"image","data":".."}]`, `[{"type":"text","text":""}]`} {
		span := judge(t, sp{name: "x", attributes: mcp.with(attrs{"gen_ai.tool.call.result": `{"content":` + content + `,"isError":true}`})})
		assert.Equal(t, failed("tool_declared", "tool_error"), kindOf(span))
		assert.Equal(t, "tool_error", get(span, attrErrorDetail))
		assert.Equal(t, statusError, span.Status().Code())
		assert.Equal(t, "tool_error", span.Status().Message())
	}
	span := judge(t, sp{name: "x", status: statusError, attributes: genai, exceptions: []attrs{{"exception.type": "ValueError", "exception.message": ""}}})
	assert.Equal(t, "ValueError", get(span, attrErrorDetail))
}

// Content beyond max_content_bytes is not looked into.
func TestLongContentIsNotLookedInto(t *testing.T) {
	cfg := defaults()
	cfg.MaxContentBytes = 100
	result := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 100) + `"}],"isError":true}`
	span := spansOf(run(t, cfg, traceOf(sp{name: "x", attributes: mcp.with(attrs{"gen_ai.tool.call.result": result})})))[0]
	assert.Equal(t, okVerdict, kindOf(span))
}

// The status of a failed call becomes ERROR over UNSET; ERROR stays with its message; OK stays unless
// override_ok says that it means nothing here.
func TestStatusesArePaintedOnlyOverUnset(t *testing.T) {
	fails := genai.with(attrs{"error.type": "tool_error", "errorDetail": "x" + strings.Repeat("é", 1000)})
	unset := judge(t, sp{name: "x", attributes: fails})
	assert.Equal(t, statusError, unset.Status().Code())
	assert.Equal(t, "x"+strings.Repeat("é", maxDescription/2-1), unset.Status().Message())
	assert.Equal(t, "x"+strings.Repeat("é", maxDetail/2-1), get(unset, attrErrorDetail))

	red := judge(t, sp{name: "x", status: statusError, message: "as it was", attributes: fails})
	assert.Equal(t, "as it was", red.Status().Message())

	green := judge(t, sp{name: "x", status: statusOK, attributes: fails})
	assert.Equal(t, failed("tool_declared", "tool_error"), kindOf(green))
	assert.Equal(t, statusOK, green.Status().Code())

	cfg := defaults()
	cfg.OverrideOK = true
	overridden := spansOf(run(t, cfg, traceOf(sp{name: "x", status: statusOK, attributes: fails})))[0]
	assert.Equal(t, statusError, overridden.Status().Code())
}

// A recorded exception is a failure where the status or error.type says so, or it escaped; else it was
// handled. Under an explicit OK it never is.
func TestHandledExceptionsAreNoFailures(t *testing.T) {
	event := func(escaped any) []attrs {
		return []attrs{{"exception.type": "ValueError", "exception.escaped": escaped}}
	}
	cancelled := []attrs{{"exception.type": "asyncio.exceptions.CancelledError"}}
	for name, c := range map[string]struct {
		s    sp
		want [3]any
	}{
		"handled":                {sp{exceptions: event(false)}, okVerdict},
		"Python's False":         {sp{exceptions: event("False")}, okVerdict},
		"escaped":                {sp{exceptions: event(true)}, failed("tool_declared", "value_error")},
		"Python's True":          {sp{exceptions: event("True")}, failed("tool_declared", "value_error")},
		"escaped, status OK":     {sp{exceptions: event(true), status: statusOK}, okVerdict},
		"cancelled":              {sp{exceptions: cancelled}, [3]any{"cancelled", nil, nil}},
		"cancelled, OK, failed":  {sp{exceptions: cancelled, status: statusOK, attributes: attrs{"error.type": "tool_error"}}, failed("tool_declared", "tool_error")},
		"error.type says so, OK": {sp{status: statusOK, attributes: attrs{"error.type": "CancelledError"}}, [3]any{"cancelled", nil, nil}},
		"cancelled, OK":          {sp{exceptions: cancelled, status: statusOK}, okVerdict},
		"handled, ERROR":         {sp{exceptions: event(false), status: statusError}, failed("tool_declared", "value_error")},
	} {
		c.s.name, c.s.attributes = "x", genai.with(c.s.attributes)
		assert.Equal(t, c.want, kindOf(judge(t, c.s)), name)
	}
}

// A typed HTTP status fails a call whose status is UNSET; under OK the application knew better.
func TestHTTPStatusesFailUnsetSpans(t *testing.T) {
	for _, c := range []struct {
		key    string
		value  any
		status func(*sp)
		want   [3]any
	}{
		{"http.response.status_code", int64(503), nil, failed("http_status", "http_503")},
		{"http.status_code", int64(404), nil, failed("http_status", "http_404")},
		{"http.response.status_code", int64(200), nil, okVerdict},
		{"http.response.status_code", int64(302), nil, okVerdict},
		{"http.response.status_code", "503", nil, okVerdict},
		{"http.response.status_code", int64(50300), nil, okVerdict},
		{"http.response.status_code", true, nil, okVerdict},
		{"http.response.status_code", int64(404), func(s *sp) { s.status = statusOK }, okVerdict},
	} {
		s := sp{name: "x", attributes: genai.with(attrs{c.key: c.value})}
		if c.status != nil {
			c.status(&s)
		}
		span := judge(t, s)
		assert.Equal(t, c.want, kindOf(span), "%s=%v", c.key, c.value)
		if want, ok := c.value.(int64); ok && c.want[0] == "error" {
			assert.Equal(t, want, get(span, attrHTTPStatus))
		}
	}
}

// A warning that a span's owner wrote is kept as one; an error beats it.
func TestWarningsAreKept(t *testing.T) {
	span := judge(t, sp{name: "x", attributes: openinference.with(attrs{"warning.type": "stale", "warning.message": "6h old"})})
	assert.Equal(t, [3]any{"warning", "tool_declared", "stale"}, kindOf(span))
	assert.Equal(t, "6h old", get(span, attrErrorDetail))
	assert.Nil(t, get(span, attrSemconvError), "error.type is never on a warning")
	assert.Equal(t, statusUnset, span.Status().Code())

	span = judge(t, sp{name: "x", status: statusError, attributes: openinference.with(attrs{"warning.type": "stale"})})
	assert.Equal(t, failed("tool_declared", "span_error"), kindOf(span))
}

// A field that a framework reserves for failure is believed.
func TestFrameworkStatusFieldsAreBelieved(t *testing.T) {
	span := judge(t, sp{name: "x", attributes: genai.with(attrs{"gen_ai.tool.status": "error"})})
	assert.Equal(t, failed("tool_declared", "tool_error"), kindOf(span))
	span = judge(t, sp{name: "x", attributes: traceloop.with(attrs{"gen_ai.task.status": "success"})})
	assert.Equal(t, okVerdict, kindOf(span))
}

// The call id and the tool's name are carried over from where each vocabulary keeps them.
func TestCallIDsAreCarriedOver(t *testing.T) {
	for name, attributes := range map[string]attrs{
		"openinference, own attribute": openinference.with(attrs{"tool.id": "call_1"}),
		"openinference, ToolMessage":   openinference.with(attrs{"output.value": `{"type":"tool","data":{"tool_call_id":"call_1"}}`}),
		"traceloop, captured input":    traceloop.with(attrs{"traceloop.entity.input": `{"inputs":{},"kwargs":{"tool_call_id":"call_1"}}`}),
		"genai":                        genai.with(attrs{"gen_ai.tool.call.id": "call_1"}),
	} {
		assert.Equal(t, "call_1", get(judge(t, sp{name: "x", attributes: attributes}), attrToolCallID), name)
	}
}

// Attributes of the wrong type and absurd lengths change nothing but what they would have told, and what
// is written stays bounded.
func TestOddAttributesAreBorne(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	for name, odd := range map[string]attrs{
		"error.type a map":      {"error.type": map[string]any{"a": "b"}},
		"errorType a number":    {"errorType": int64(3)},
		"tool name a list":      {"gen_ai.tool.name": []any{"a"}},
		"status code a map":     {"http.response.status_code": map[string]any{}},
		"huge error.type":       {"error.type": huge},
		"huge tool name":        {"gen_ai.tool.name": huge},
		"huge errorDetail":      {"errorDetail": huge},
		"huge errorCode":        {"errorType": "transform", "errorCode": huge},
		"a JSON-RPC code a map": {"rpc.jsonrpc.error_code": map[string]any{}},
		"bytes":                 {"error.type": []byte{0xff, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			span := judge(t, sp{
				name: huge, status: statusError, attributes: attrs{"mcp.method.name": "tools/call"}.with(odd),
				exceptions: []attrs{{"exception.type": int64(1), "exception.message": "\x00" + huge}},
			})
			require.Equal(t, "error", get(span, attrOutcome))
			written := maps.Clone(span.Attributes().AsRaw())
			for key := range odd {
				if key != attrErrorType && key != attrErrorCode && key != attrErrorDetail {
					assert.Equal(t, odd[key], written[key], "what was there stays")
					delete(written, key)
				}
			}
			assert.True(t, isErrorType(written[attrErrorType].(string)))
			for key, value := range written {
				if value, ok := value.(string); ok {
					assert.LessOrEqual(t, len(value), maxDetail, key)
					assert.NotContains(t, value, "\x00")
				}
			}
		})
	}
}
