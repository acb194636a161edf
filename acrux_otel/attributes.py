# SPDX-License-Identifier: Apache-2.0
"""Every attribute, span and metric name that acrux-otel writes, once. Imports nothing.

The ``gen_ai.*``, ``error.type``, ``http.*``, ``session.*`` and ``exception.*`` names are those of the
OpenTelemetry semantic conventions; the rest are ours.
"""

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.37.0"
SCOPE: Final = "acrux_otel"

# a tool call, at its start
OPERATION_NAME: Final = "gen_ai.operation.name"
EXECUTE_TOOL: Final = "execute_tool"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
EXECUTOR_TYPE: Final = "executorType"

# a tool call, at its end
TOOL_VERSION_ID: Final = "toolVersionId"
OUTCOME: Final = "acrux.tool.outcome"
ERROR_TYPE: Final = "errorType"
ERROR_CODE: Final = "errorCode"
ERROR_DETAIL: Final = "errorDetail"
SEMCONV_ERROR_TYPE: Final = "error.type"
RETRYABLE: Final = "acrux.tool.retryable"
WARNING_TYPE: Final = "warning.type"
WARNING_MESSAGE: Final = "warning.message"
HTTP_STATUS: Final = "http.response.status_code"
ATTEMPTS: Final = "acrux.tool.attempts"
STOP_REASON: Final = "acrux.tool.stop_reason"
ATTEMPT_EVENT: Final = "acrux.tool.attempt"
ATTEMPT_NUMBER: Final = "acrux.tool.attempt.number"
RETRY_DELAY: Final = "acrux.tool.retry.delay"  # seconds
RETRY_AFTER: Final = "acrux.tool.retry.after"  # seconds that the service asked for
CIRCUIT_EVENT: Final = "acrux.tool.circuit"
CIRCUIT_NAME: Final = "acrux.tool.circuit.name"
CIRCUIT_STATE: Final = "acrux.tool.circuit.state"
FALLBACK_ERROR_TYPE: Final = "acrux.tool.fallback.error_type"
FALLBACK_ERROR_CODE: Final = "acrux.tool.fallback.error_code"
NOT_EXECUTED_REASON: Final = "acrux.tool.not_executed_reason"
ARGUMENTS_HASH: Final = "acrux.tool.arguments.hash"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
TRUNCATED_BYTES: Final = "acrux.tool.truncated_bytes"

# the event of a raised exception
EXCEPTION_EVENT: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACKTRACE: Final = "exception.stacktrace"

# a run
INVOKE_AGENT: Final = "invoke_agent"
AGENT_NAME: Final = "gen_ai.agent.name"
SESSION_ID: Final = "session.id"
TAG_PREFIX: Final = "acrux.tag."
TRACE_OUTCOME: Final = "acrux.trace.outcome"
RUN_CALLS: Final = "acrux.tool.calls"
RUN_FAILED: Final = "acrux.tool.failed"
RUN_WARNED: Final = "acrux.tool.warned"
RUN_NOT_EXECUTED: Final = "acrux.tool.not_executed"
RUN_RETRIES: Final = "acrux.tool.retries"
RUN_FIRST_FAILED_TOOL: Final = "acrux.tool.first_failed.name"
RUN_FIRST_FAILED_TYPE: Final = "acrux.tool.first_failed.error_type"
RUN_FIRST_FAILED_CODE: Final = "acrux.tool.first_failed.error_code"
RUN_STOP_REASON: Final = "acrux.run.stop_reason"
RUN_BUDGET_PREFIX: Final = "acrux.run.budget."  # + calls, failures, seconds, cost: what is left

# only the collector processor toolverdict writes these: on a tool call of another instrumentation, and on
# the root of a trace
NORMALISED_FROM: Final = "acrux.tool.normalised_from"
LAYER_OF: Final = "acrux.tool.layer_of"
TRACE_PARTIAL: Final = "acrux.trace.partial"
TRACE_STORM: Final = "acrux.trace.storm"
TRACE_STORM_TOOL: Final = "acrux.trace.storm_tool"
TRACE_STORM_CALLS: Final = "acrux.trace.storm_calls"
TRACE_STORM_IDENTICAL: Final = "acrux.trace.storm_identical"
TRACE_WRONG_RETRIES: Final = "acrux.trace.wrong_retries"
TRACE_UNANSWERED: Final = "acrux.trace.unanswered_tool_calls"

# metrics
DURATION_METRIC: Final = "gen_ai.execute_tool.duration"
CALLS_METRIC: Final = "acrux.tool.calls"
RETRIES_METRIC: Final = "acrux.tool.retries"
CIRCUIT_METRIC: Final = "acrux.tool.circuit.state"
BUDGET_METRIC: Final = "acrux.run.budget.left"
RETRY_BUDGET_METRIC: Final = "acrux.tool.retry_budget.left"
IN_FLIGHT_METRIC: Final = "acrux.tool.in_flight"
BACKLOG_METRIC: Final = "acrux.run.backlog"
