# SPDX-License-Identifier: Apache-2.0
"""Which exceptions mean what: one table of dotted class names, and the readers of those whose class alone
does not tell. No library is imported to be recognised. Imports `acrux_otel.verdict` and `.evidence`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from acrux_otel.classify.evidence import (
    args_of,
    cause_of,
    code_of,
    dotted,
    get,
    http_status,
    is_exception,
    members,
    retry_after,
    retryable_status,
    status_of,
)
from acrux_otel.verdict import ErrorType, Outcome, Verdict

__all__ = ["ENDINGS", "GROUPS", "TABLE", "Rule", "error", "http_error", "rule_of"]


Read = Callable[[BaseException, "Rule"], "Verdict | None"]


class Rule(NamedTuple):
    """One row of the table: what an exception of the named class means.

    ``code`` empty means the class name. ``read`` looks at the exception itself, and its None means the
    fallback. ``before_status`` outranks a typed HTTP status on the same exception.
    """

    error_type: ErrorType
    code: str = ""
    retryable: bool | None = None
    read: Read | None = None
    before_status: bool = False


def rule_of(kind: type) -> Rule | None:
    """The rule of the first class of the MRO that the table names."""
    return next((rule for base in kind.__mro__ if (rule := TABLE.get(dotted(base)))), None)


# ---- readers -----------------------------------------------------------------------------------------


def error(
    error_type: ErrorType,
    code: str,
    retryable: bool | None = None,
    status: int | None = None,
    retry_after: float | None = None,
) -> Verdict:
    return Verdict(Outcome.ERROR, error_type, code, None, retryable, status, retry_after)


def http_error(exc: BaseException, status: int) -> Verdict:
    return error(ErrorType.HTTP_STATUS, f"http_{status}", retryable_status(status), status, retry_after(exc))


def _inside(exc: BaseException) -> Iterator[BaseException]:
    """What a network error names as its reason: each library has its own place for it."""
    kwargs = get(exc, "kwargs")  # botocore
    held = kwargs.get("error") if type(kwargs) is dict else None
    for inner in (cause_of(exc), get(exc, "reason"), held, *args_of(exc)[:4], *members(exc)):
        if inner is not None and is_exception(inner):
            yield inner


def _reason(exc: BaseException) -> Rule | None:
    """The most telling transport rule among the reasons of ``exc``: the first specific one, else any."""
    found: Rule | None = None
    waiting = [exc]
    for _ in range(16):
        if not waiting:
            break
        for inner in _inside(waiting.pop(0)):
            rule = rule_of(type(inner))
            if rule is not None and rule.error_type is ErrorType.TRANSPORT and rule.code:
                if rule.read is None or rule.code == "tls":
                    return rule
                if found is None and (rule.read is _network or rule.read(inner, rule) is not None):
                    found = rule
            waiting.append(inner)
    return found


def _network(exc: BaseException, rule: Rule) -> Verdict:
    """A general connection error, named more exactly where its reason is typed."""
    inner = _reason(exc)
    if inner is not None and inner.code != rule.code:
        rule = inner
    return error(ErrorType.TRANSPORT, rule.code, rule.retryable)


def _by_reason(exc: BaseException, rule: Rule) -> Verdict | None:
    """A wrapper that is a network error only if what it wraps is one."""
    inner = _reason(exc)
    return None if inner is None else error(ErrorType.TRANSPORT, inner.code, inner.retryable)


def _tls(exc: BaseException, rule: Rule) -> Verdict:
    waiting, seen = [exc], 0
    while waiting and seen < 16:
        seen += 1
        for inner in _inside(waiting.pop(0)):
            if rule_of(type(inner)) is _UNTRUSTED:
                return error(ErrorType.TRANSPORT, "tls", False)
            waiting.append(inner)
    return error(ErrorType.TRANSPORT, "tls", rule.retryable)


_UNREACHABLE: Final = frozenset(
    getattr(errno, name)
    for name in ("ENETDOWN", "ENETUNREACH", "EHOSTDOWN", "EHOSTUNREACH", "EADDRNOTAVAIL")
    if hasattr(errno, name)
)


def _by_errno(exc: BaseException, rule: Rule) -> Verdict | None:
    number = get(exc, "errno")
    if type(number) is int and number in _UNREACHABLE:
        return error(ErrorType.TRANSPORT, rule.code, rule.retryable)
    return None


def _by_status(exc: BaseException, rule: Rule) -> Verdict | None:
    """A known HTTP error class, whose ``status`` or ``code`` is a status."""
    status = status_of(exc, "status", "code")
    return http_error(exc, status) if status else None


_QUOTA: Final = frozenset(
    (
        "insufficient_quota",
        "quota_exceeded",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "insufficient_balance",
    )
)


def _provider_status(exc: BaseException, status: int) -> Verdict:
    code = "rate_limited" if status == 429 else f"http_{status}"
    return error(ErrorType.PROVIDER_ERROR, code, retryable_status(status), status, retry_after(exc))


def _spent(exc: BaseException, rule: Rule) -> Verdict:
    return error(rule.error_type, rule.code, False, status_of(exc) or None, retry_after(exc))


def _provider(exc: BaseException, rule: Rule) -> Verdict:
    """An error that a model provider's SDK raised: by status, and by the provider's own code."""
    status = status_of(exc, "code")
    body = get(exc, "body")
    named: list[object] = [get(exc, "code"), get(exc, "type")]
    for part in (body, body.get("error") if type(body) is dict else None):
        if type(part) is dict:
            named += (part.get("code"), part.get("type"))
    if status == 402 or any(type(name) is str and name in _QUOTA for name in named):
        return error(ErrorType.PROVIDER_ERROR, "quota_exhausted", False, status or None, retry_after(exc))
    if not status:
        return error(ErrorType.PROVIDER_ERROR, rule.code or code_of(type(exc).__name__), rule.retryable)
    return _provider_status(exc, status)


_MODEL_OPERATIONS: Final = frozenset(
    (
        "InvokeModel",
        "InvokeModelWithResponseStream",
        "InvokeModelWithBidirectionalStream",
        "Converse",
        "ConverseStream",
        "CountTokens",
    )
)
_AWS_CODES: Final = {
    "ThrottlingException": ("rate_limited", True),
    "throttlingException": ("rate_limited", True),
    "ServiceQuotaExceededException": ("quota_exhausted", False),
    "serviceQuotaExceededException": ("quota_exhausted", False),
}


def _aws(exc: BaseException, rule: Rule) -> Verdict | None:
    """botocore has one class for every service: a Bedrock runtime call is known by its operation."""
    response = get(exc, "response")
    parts = response if type(response) is dict else {}
    metadata, failure = parts.get("ResponseMetadata"), parts.get("Error")
    status = http_status(metadata.get("HTTPStatusCode")) if type(metadata) is dict else 0
    name = failure.get("Code") if type(failure) is dict else None
    operation = get(exc, "operation_name")
    if type(operation) is not str or operation not in _MODEL_OPERATIONS:
        return http_error(exc, status) if status else None
    name = name if type(name) is str else ""
    if name in _AWS_CODES:
        code, retryable = _AWS_CODES[name]
        return error(ErrorType.PROVIDER_ERROR, code, retryable, status or None, retry_after(exc))
    if status:
        return _provider_status(exc, status)
    return error(ErrorType.PROVIDER_ERROR, code_of(name or "ClientError"))


_GRPC_RETRYABLE: Final = {  # the rest: None
    "RESOURCE_EXHAUSTED": True,
    "ABORTED": True,
    "INVALID_ARGUMENT": False,
    "NOT_FOUND": False,
    "ALREADY_EXISTS": False,
    "PERMISSION_DENIED": False,
    "UNAUTHENTICATED": False,
    "FAILED_PRECONDITION": False,
    "OUT_OF_RANGE": False,
    "UNIMPLEMENTED": False,
}


def _grpc(exc: BaseException, rule: Rule) -> Verdict | None:
    """Unavailable and deadline are the network's; any other code is the service's own answer."""
    try:
        name = exc.code().name  # type: ignore[attr-defined]
    except Exception:
        return None
    if name == "UNAVAILABLE":
        return error(ErrorType.TRANSPORT, "connection_error", True)
    if name == "DEADLINE_EXCEEDED":
        return error(ErrorType.TRANSPORT, "timeout")
    if type(name) is not str:
        return None
    return error(ErrorType.TOOL_DECLARED, f"grpc_{code_of(name)}", _GRPC_RETRYABLE.get(name))


def _mcp(exc: BaseException, rule: Rule) -> Verdict | None:
    """JSON-RPC codes; 408 is how the 1.x client reports its own time limit."""
    code = get(get(exc, "error"), "code")
    if type(code) is not int:
        return None
    if code == -32000:
        return error(ErrorType.TRANSPORT, "connection_closed")
    if code in (-32001, 408):
        return error(ErrorType.TRANSPORT, "timeout")
    if code == -32602:
        return error(ErrorType.SCHEMA_MISMATCH, "invalid_arguments", False)
    retryable = False if code in (-32700, -32600, -32601) else None
    return error(ErrorType.PROVIDER_ERROR, f"jsonrpc_{abs(code)}"[:64], retryable)


# ---- the table ---------------------------------------------------------------------------------------

_TIMEOUT: Final = Rule(ErrorType.TRANSPORT, "timeout")
_REFUSED: Final = Rule(ErrorType.TRANSPORT, "connection_refused", True)
_RESET: Final = Rule(ErrorType.TRANSPORT, "connection_reset")
_DNS: Final = Rule(ErrorType.TRANSPORT, "dns", True)
_UNTRUSTED: Final = Rule(ErrorType.TRANSPORT, "tls", False)
_HANDSHAKE: Final = Rule(ErrorType.TRANSPORT, "tls", None)
_TLS: Final = Rule(ErrorType.TRANSPORT, "tls", None, _tls)
_CONNECTION: Final = Rule(ErrorType.TRANSPORT, "connection_error", True, _network)
_BROKEN: Final = Rule(ErrorType.TRANSPORT, "connection_error", None, _network)  # maybe after sending
_WRAPPER: Final = Rule(ErrorType.TRANSPORT, "connection_error", None, _by_reason)
_ERRNO: Final = Rule(ErrorType.TRANSPORT, "connection_error", True, _by_errno)
_STATUS: Final = Rule(ErrorType.HTTP_STATUS, "", None, _by_status, before_status=True)
_ARGUMENTS: Final = Rule(ErrorType.SCHEMA_MISMATCH, "invalid_arguments", False)
_DECODING: Final = Rule(ErrorType.TRANSFORM, "", False)
_CSV: Final = Rule(ErrorType.TRANSFORM, "csv_error", False)
_BINASCII: Final = Rule(ErrorType.TRANSFORM, "binascii_error", False)
_PROVIDER: Final = Rule(ErrorType.PROVIDER_ERROR, "", None, _provider, before_status=True)
_SPENT: Final = Rule(ErrorType.PROVIDER_ERROR, "quota_exhausted", False, _spent, before_status=True)
_SDK_TIMEOUT: Final = _TIMEOUT._replace(before_status=True)
_SDK_CONNECTION: Final = _CONNECTION._replace(before_status=True)
_SDK_BROKEN: Final = _BROKEN._replace(before_status=True)
_AWS: Final = Rule(ErrorType.HTTP_STATUS, "", None, _aws, before_status=True)
_GRPC: Final = Rule(ErrorType.TRANSPORT, "", None, _grpc, before_status=True)
_MCP: Final = Rule(ErrorType.PROVIDER_ERROR, "", None, _mcp, before_status=True)
_FALLBACK: Final = Rule(ErrorType.TOOL_DECLARED, "", None, lambda exc, rule: None)  # ends the search


def _rows(rule: Rule, prefix: str, names: str) -> dict[str, Rule]:
    return {f"{prefix}.{name}": rule for name in names.split()}


# Dotted class name -> rule. The first class of the MRO that is named here decides.
TABLE: Final[dict[str, Rule]] = {
    # the standard library
    **_rows(_TIMEOUT, "builtins", "TimeoutError"),
    **_rows(_TIMEOUT, "asyncio.exceptions", "TimeoutError"),
    **_rows(_TIMEOUT, "concurrent.futures._base", "TimeoutError"),
    **_rows(_TIMEOUT, "multiprocessing.context", "TimeoutError"),
    **_rows(_TIMEOUT, "subprocess", "TimeoutExpired"),
    **_rows(_REFUSED, "builtins", "ConnectionRefusedError"),
    **_rows(_RESET, "builtins", "ConnectionResetError ConnectionAbortedError BrokenPipeError"),
    **_rows(_CONNECTION, "builtins", "ConnectionError"),
    **_rows(_ERRNO, "builtins", "OSError"),
    **_rows(_DNS, "socket", "gaierror herror"),
    **_rows(_UNTRUSTED, "ssl", "SSLCertVerificationError"),
    **_rows(_HANDSHAKE, "ssl", "SSLError"),
    **_rows(_RESET, "asyncio.exceptions", "IncompleteReadError"),
    **_rows(_RESET, "http.client", "IncompleteRead BadStatusLine"),
    **_rows(_RESET, "smtplib", "SMTPServerDisconnected"),
    **_rows(_CONNECTION, "smtplib", "SMTPConnectError"),
    **_rows(_STATUS, "urllib.error", "HTTPError"),
    **_rows(_RESET, "urllib.error", "ContentTooShortError"),
    **_rows(_WRAPPER, "urllib.error", "URLError"),
    # httpx, httpx2 and the transport below each
    **{
        name: rule
        for library in ("httpx", "httpx2", "httpcore", "httpcore2")
        for name, rule in {
            **_rows(_TIMEOUT, library, "TimeoutException"),
            **_rows(_CONNECTION, library, "ConnectError ProxyError"),
            **_rows(_RESET, library, "ReadError WriteError RemoteProtocolError"),
            **_rows(_BROKEN, library, "NetworkError TransportError"),
            **_rows(_DECODING, library, "DecodingError"),
            **_rows(_FALLBACK, library, "LocalProtocolError UnsupportedProtocol"),
        }.items()
    },
    **_rows(_DECODING, "httpx2", "SSEError"),
    # our own HTTP tools
    **_rows(_ARGUMENTS, "acrux_otel.http_tool.errors", "ArgumentRefused"),
    **_rows(_DECODING, "acrux_otel.http_tool.errors", "ResponseTooLarge UnreadableResponse"),
    **_rows(_DECODING, "jmespath.exceptions", "JMESPathError"),
    # requests
    **_rows(_TIMEOUT, "requests.exceptions", "Timeout"),
    **_rows(_TIMEOUT, "requests.exceptions", "ConnectTimeout"),
    **_rows(_TLS, "requests.exceptions", "SSLError"),
    **_rows(_CONNECTION, "requests.exceptions", "ConnectionError"),
    **_rows(_RESET, "requests.exceptions", "ChunkedEncodingError"),
    **_rows(_WRAPPER, "requests.exceptions", "RetryError"),
    **_rows(_DECODING, "requests.exceptions", "ContentDecodingError JSONDecodeError"),
    **_rows(_STATUS, "requests.exceptions", "HTTPError"),
    # urllib3
    **_rows(_TIMEOUT, "urllib3.exceptions", "TimeoutError"),
    **_rows(_DNS, "urllib3.exceptions", "NameResolutionError"),
    **_rows(_CONNECTION, "urllib3.exceptions", "NewConnectionError ProxyError"),
    **_rows(_TLS, "urllib3.exceptions", "SSLError"),
    **_rows(_UNTRUSTED, "urllib3.util.ssl_match_hostname", "CertificateError"),
    **_rows(_RESET, "urllib3.exceptions", "ProtocolError IncompleteRead InvalidChunkLength"),
    **_rows(_WRAPPER, "urllib3.exceptions", "MaxRetryError"),
    **_rows(_DECODING, "urllib3.exceptions", "DecodeError"),
    # aiohttp
    **_rows(_STATUS, "aiohttp.client_exceptions", "ClientResponseError"),
    **_rows(_DECODING, "aiohttp.client_exceptions", "ContentTypeError"),
    **_rows(_TIMEOUT, "aiohttp.client_exceptions", "ServerTimeoutError"),
    **_rows(_DNS, "aiohttp.client_exceptions", "ClientConnectorDNSError"),
    **_rows(
        _UNTRUSTED, "aiohttp.client_exceptions", "ClientConnectorCertificateError ServerFingerprintMismatch"
    ),
    **_rows(_TLS, "aiohttp.client_exceptions", "ClientSSLError"),
    **_rows(_CONNECTION, "aiohttp.client_exceptions", "ClientConnectorError"),
    **_rows(
        _RESET,
        "aiohttp.client_exceptions",
        "ServerDisconnectedError ClientPayloadError ClientConnectionResetError",
    ),
    **_rows(_BROKEN, "aiohttp.client_exceptions", "ClientOSError ClientConnectionError"),
    # grpc, botocore, MCP
    **_rows(_GRPC, "grpc", "RpcError"),
    **_rows(_TIMEOUT, "grpc", "FutureTimeoutError"),
    **_rows(_AWS, "botocore.exceptions", "ClientError"),
    **_rows(_TIMEOUT, "botocore.exceptions", "ConnectTimeoutError ReadTimeoutError"),
    **_rows(_TLS, "botocore.exceptions", "SSLError"),
    **_rows(
        _CONNECTION, "botocore.exceptions", "ConnectionError EndpointConnectionError ProxyConnectionError"
    ),
    **_rows(_RESET, "botocore.exceptions", "ConnectionClosedError ResponseStreamingError"),
    **_rows(_BROKEN, "botocore.exceptions", "HTTPClientError"),
    **_rows(_MCP, "mcp.shared.exceptions", "MCPError McpError"),
    # model providers
    **{
        name: rule
        for library, base in (
            ("openai", "OpenAIError"),
            ("anthropic", "AnthropicError"),
            ("groq", "GroqError"),
            ("together", "TogetherError"),
            ("cerebras.cloud.sdk", "CerebrasError"),
        )
        for name, rule in {
            **_rows(_PROVIDER, library, base),
            **_rows(_SDK_CONNECTION, library, "APIConnectionError"),
            **_rows(_SDK_TIMEOUT, library, "APITimeoutError"),
        }.items()
    },
    **_rows(
        _SPENT,
        "anthropic",
        "ContractSpendLimitReachedError EnforcedSpendLimitReachedError "
        "LinkedOrganizationSpendLimitReachedError LinkedOrganizationBillingUnavailableError",
    ),
    **_rows(_PROVIDER, "google.genai.errors", "APIError UnknownApiResponseError"),
    **_rows(_PROVIDER, "mistralai.client.errors.mistralerror", "MistralError"),
    **_rows(_SDK_BROKEN, "mistralai.client.errors.no_response_error", "NoResponseError"),
    **_rows(_PROVIDER, "mistralai.models.mistralerror", "MistralError"),
    **_rows(_SDK_BROKEN, "mistralai.models.no_response_error", "NoResponseError"),
    **_rows(_PROVIDER, "mistralai.models.sdkerror", "SDKError"),
    **_rows(_PROVIDER, "cohere.core.api_error", "ApiError"),
    **_rows(_SPENT, "litellm.exceptions", "BudgetExceededError"),
    **_rows(_PROVIDER, "ollama._types", "ResponseError"),
    **_rows(_PROVIDER, "replicate.exceptions", "ReplicateException"),
    **_rows(_PROVIDER, "pydantic_ai.exceptions", "ModelAPIError"),
    # HTTP error classes of servers, raised by a tool that lives in one
    **_rows(_STATUS, "werkzeug.exceptions", "HTTPException"),
    **_rows(_STATUS, "tornado.httpclient", "HTTPClientError"),
    # data that does not decode or convert
    **_rows(_DECODING, "json.decoder", "JSONDecodeError"),
    **_rows(_DECODING, "simplejson.errors", "JSONDecodeError"),
    **_rows(_DECODING, "ujson", "JSONDecodeError"),
    **_rows(_DECODING, "builtins", "UnicodeError"),
    **_rows(_BINASCII, "binascii", "Error"),
    **_rows(_DECODING, "xml.etree.ElementTree", "ParseError"),
    **_rows(_DECODING, "xml.parsers.expat", "ExpatError"),
    **_rows(_DECODING, "xml.sax._exceptions", "SAXParseException"),
    **_rows(_DECODING, "lxml.etree", "ParseError"),
    **_rows(_CSV, "_csv", "Error"),
    **_rows(_DECODING, "pandas.errors", "ParserError"),
    **_rows(_DECODING, "yaml.error", "YAMLError"),
    **_rows(_DECODING, "ruamel.yaml.error", "YAMLError"),
    **_rows(_DECODING, "tomllib", "TOMLDecodeError"),
    **_rows(_DECODING, "tomli._parser", "TOMLDecodeError"),
    **_rows(_DECODING, "pydantic_core._pydantic_core", "ValidationError"),
    **_rows(_DECODING, "pydantic.v1.error_wrappers", "ValidationError"),
    **_rows(_DECODING, "pydantic.error_wrappers", "ValidationError"),
    **_rows(_DECODING, "msgspec", "DecodeError"),
    **_rows(_DECODING, "jsonschema.exceptions", "ValidationError"),
}

# Dotted class name -> how the call ended without failing.
ENDINGS: Final[dict[str, Outcome]] = {
    "asyncio.exceptions.CancelledError": Outcome.CANCELLED,
    "concurrent.futures._base.CancelledError": Outcome.CANCELLED,
    "trio.Cancelled": Outcome.CANCELLED,
    "grpc.FutureCancelledError": Outcome.CANCELLED,
    "greenlet.GreenletExit": Outcome.CANCELLED,
    "builtins.KeyboardInterrupt": Outcome.CANCELLED,
    "builtins.SystemExit": Outcome.CANCELLED,
    "builtins.GeneratorExit": Outcome.CLOSED,
    # the frameworks' own hand-offs
    "langgraph.errors.GraphBubbleUp": Outcome.INTERRUPTED,
    "pydantic_ai.exceptions.CallDeferred": Outcome.INTERRUPTED,
    "pydantic_ai.exceptions.ApprovalRequired": Outcome.INTERRUPTED,
    "strands.interrupt.InterruptException": Outcome.INTERRUPTED,
    "agent_framework.exceptions.UserInputRequiredException": Outcome.INTERRUPTED,
    "agent_framework._middleware.MiddlewareTermination": Outcome.INTERRUPTED,
    "workflows.runtime.types.results.WaitingForEvent": Outcome.INTERRUPTED,
    "google.adk.workflow._errors.NodeInterruptedError": Outcome.INTERRUPTED,
    "crewai.flow.async_feedback.types.HumanFeedbackPending": Outcome.INTERRUPTED,
}

GROUPS: Final = frozenset(
    (
        "builtins.BaseExceptionGroup",
        "exceptiongroup.BaseExceptionGroup",
        "exceptiongroup._exceptions.BaseExceptionGroup",
    )
)
