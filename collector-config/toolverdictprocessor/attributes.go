// SPDX-License-Identifier: Apache-2.0

package toolverdictprocessor

// Every attribute name that this processor writes or reads as its own vocabulary. The names that the
// SDK writes as well are those of acrux_otel/attributes.py, held equal by a test. The names of foreign
// vocabularies are in rules.yaml.
const (
	// a tool call
	attrOperationName  = "gen_ai.operation.name"
	attrToolName       = "gen_ai.tool.name"
	attrToolCallID     = "gen_ai.tool.call.id"
	attrOutcome        = "acrux.tool.outcome"
	attrErrorType      = "errorType"
	attrErrorCode      = "errorCode"
	attrErrorDetail    = "errorDetail"
	attrSemconvError   = "error.type"
	attrRetryable      = "acrux.tool.retryable"
	attrWarningType    = "warning.type"
	attrWarningMessage = "warning.message"
	attrHTTPStatus     = "http.response.status_code"
	attrAttempts       = "acrux.tool.attempts"
	attrArgumentsHash  = "acrux.tool.arguments.hash"
	attrArguments      = "gen_ai.tool.call.arguments"
	attrTruncatedBytes = "acrux.tool.truncated_bytes"

	// a trace, on its root
	attrTraceOutcome    = "acrux.trace.outcome"
	attrCalls           = "acrux.tool.calls"
	attrFailed          = "acrux.tool.failed"
	attrWarned          = "acrux.tool.warned"
	attrNotExecuted     = "acrux.tool.not_executed"
	attrRetries         = "acrux.tool.retries"
	attrFirstFailed     = "acrux.tool.first_failed.name"
	attrFirstFailedType = "acrux.tool.first_failed.error_type"
	attrFirstFailedCode = "acrux.tool.first_failed.error_code"

	// only this processor writes these
	attrNormalisedFrom = "acrux.tool.normalised_from"
	attrLayerOf        = "acrux.tool.layer_of"
	attrTraceVerdict   = "acrux.trace.verdict"
	attrPartial        = "acrux.trace.partial"
	attrStorm          = "acrux.trace.storm"
	attrStormTool      = "acrux.trace.storm_tool"
	attrStormCalls     = "acrux.trace.storm_calls"
	attrStormIdentical = "acrux.trace.storm_identical"
	attrWrongRetries   = "acrux.trace.wrong_retries"
	attrUnanswered     = "acrux.trace.unanswered_tool_calls"

	// events
	eventException       = "exception"
	attrExceptionType    = "exception.type"
	attrExceptionMessage = "exception.message"
	attrExceptionEscaped = "exception.escaped"
)

const operationExecuteTool = "execute_tool"
