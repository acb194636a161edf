# SPDX-License-Identifier: Apache-2.0
"""From an exception, or a framework's own error result, to a `Verdict`.

The tables are data and name classes by dotted path, so that no library is imported to be recognised.
Types and typed attributes decide, never prose. Imports `acrux_otel.verdict` and the standard library.
"""

from __future__ import annotations

import datetime
import email.utils
import errno
import http
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

from acrux_otel.verdict import ErrorType, Outcome, Verdict, slug, warn_once

__all__ = [
    "circuit_open",
    "classify",
    "classify_arguments",
    "code_of",
    "declared_by_result",
    "invalid_result",
    "malformed_arguments",
    "mcp_failure",
    "not_executed",
    "policy_denied",
    "register_classifier",
    "unknown_tool",
]

_DETAIL_BYTES: Final = 1024
_RETRY_AFTER_MOST: Final = 86_400.0
_LINKS: Final = 256  # exceptions looked at for one verdict; also what ends a cycle
_DEPTH: Final = 16  # groups within groups
_TYPES: Final = 1024  # types remembered

_Read = Callable[[BaseException, "_Rule"], "Verdict | None"]


class _Rule(NamedTuple):
    """One row of the table: what an exception of the named class means.

    ``code`` empty means the class name. ``read`` looks at the exception itself, and its None means the
    fallback. ``before_status`` outranks a typed HTTP status on the same exception.
    """

    error_type: ErrorType
    code: str = ""
    retryable: bool | None = None
    read: _Read | None = None
    before_status: bool = False


# ---- what a rule may read off an exception -----------------------------------------------------------


def _error(
    error_type: ErrorType,
    code: str,
    retryable: bool | None = None,
    status: int | None = None,
    retry_after: float | None = None,
) -> Verdict:
    return Verdict(Outcome.ERROR, error_type, code, None, retryable, status, retry_after)


def _get(obj: object, name: str) -> Any:
    """The attribute, or None where there is none or where reading it raises."""
    try:
        return getattr(obj, name, None)
    except Exception:
        return None


def _http(value: object) -> int:
    """``value`` as an HTTP status, or 0."""
    kind = type(value)
    if kind is bool or not issubclass(kind, int):
        return 0
    number = int.__add__(value, 0)  # type: ignore[operator]  # exact, whatever the subclass overrides
    return number if 100 <= number <= 599 else 0


def _status(exc: BaseException, *trusted: str) -> int:
    """The typed HTTP status that ``exc`` carries, or 0; ``trusted`` names are HTTP on this class."""
    if found := _http(_get(exc, "status_code")):
        return found
    response = _get(exc, "response")
    if response is not None and (
        found := _http(_get(response, "status_code")) or _http(_get(response, "status"))
    ):
        return found
    for name in ("status", "code"):
        value = _get(exc, name)
        # a bare number under these names is as often an exit code or an application's own
        if value is not None and (
            name in trusted
            or issubclass(type(value), http.HTTPStatus)
            or response is not None
            or _get(exc, "headers") is not None
        ):
            found = _http(value)
            if found:
                return found
    return 0


_RETRYABLE: Final = frozenset((408, 425, 429, 500, 502, 503, 504, 529))
_NEVER: Final = frozenset((501, 505))  # the server says that it cannot, not that it could not


def _retryable(status: int) -> bool | None:
    if status in _RETRYABLE:
        return True
    return False if 400 <= status < 500 or status in _NEVER else None


def _http_error(exc: BaseException, status: int) -> Verdict:
    return _error(ErrorType.HTTP_STATUS, f"http_{status}", _retryable(status), status, _retry_after(exc))


def _retry_after(exc: BaseException) -> float | None:
    """The service's ``Retry-After`` in seconds, at most a day; None where absent or not understood."""
    response = _get(exc, "response")
    for holder in (response, exc):
        headers = _get(holder, "headers")
        if headers is not None and (value := _header(headers)) is not None:
            return _seconds(value)
    if type(response) is dict:  # botocore
        metadata = response.get("ResponseMetadata")
        headers = metadata.get("HTTPHeaders") if type(metadata) is dict else None
        return _seconds(_header(headers))
    return None


def _header(headers: object) -> object:
    try:
        if isinstance(headers, dict) or type(headers) in (list, tuple):
            pairs: Any = headers.items() if isinstance(headers, dict) else headers
            for name, value in itertools.islice(pairs, _LINKS):
                if (name.decode("latin-1") if isinstance(name, bytes) else name).lower() == "retry-after":
                    return value
            return None
        return headers.get("Retry-After")  # type: ignore[attr-defined]
    except Exception:
        return None


_DIGITS: Final = re.compile(r"[0-9]{1,64}(?:\.[0-9]{1,64})?").fullmatch


def _seconds(value: object) -> float | None:
    """RFC 9110, 10.2.3: seconds or an HTTP date. What a server sends is bounded, never trusted."""
    try:
        if isinstance(value, bytes):
            value = value[:256].decode("latin-1")
        if isinstance(value, str):
            text = value[:256].strip()
            if _DIGITS(text):
                seconds = float(text)
            else:
                when = email.utils.parsedate_to_datetime(text)
                if when.tzinfo is None:
                    when = when.replace(tzinfo=datetime.timezone.utc)
                seconds = max(0.0, (when - datetime.datetime.now(datetime.timezone.utc)).total_seconds())
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = min(value, _RETRY_AFTER_MOST)  # before float(), which a huge int overflows
        else:
            return None
        return min(float(seconds), _RETRY_AFTER_MOST) if seconds >= 0 and not math.isnan(seconds) else None
    except Exception:
        return None


_own: Final[Any] = BaseException  # read past what a subclass puts under these names
_cause_of: Final[Callable[[BaseException], BaseException | None]] = _own.__cause__.__get__
_args_of: Final[Callable[[BaseException], tuple[object, ...]]] = _own.args.__get__


def _is_exception(value: object) -> bool:
    return issubclass(type(value), BaseException)


def _members(exc: BaseException) -> list[BaseException]:
    members = _get(exc, "exceptions")
    if type(members) not in (tuple, list):
        return []
    return [member for member in members[:_LINKS] if _is_exception(member)]


def _inside(exc: BaseException) -> Iterator[BaseException]:
    """What a network error names as its reason: each library has its own place for it."""
    kwargs = _get(exc, "kwargs")  # botocore
    held = kwargs.get("error") if type(kwargs) is dict else None
    for inner in (_cause_of(exc), _get(exc, "reason"), held, *_args_of(exc)[:4], *_members(exc)):
        if inner is not None and _is_exception(inner):
            yield inner


def _reason(exc: BaseException) -> _Rule | None:
    """The most telling transport rule among the reasons of ``exc``: the first specific one, else any."""
    found: _Rule | None = None
    waiting = [exc]
    for _ in range(16):
        if not waiting:
            break
        for inner in _inside(waiting.pop(0)):
            rule = _facts(type(inner)).rule
            if rule is not None and rule.error_type is ErrorType.TRANSPORT:
                if rule.read is None or rule.code == "tls":
                    return rule
                if found is None and (rule.read is _network or rule.read(inner, rule) is not None):
                    found = rule
            waiting.append(inner)
    return found


def _network(exc: BaseException, rule: _Rule) -> Verdict:
    """A general connection error, named more exactly where its reason is typed."""
    inner = _reason(exc)
    if inner is not None and inner.code != rule.code:
        rule = inner
    return _error(ErrorType.TRANSPORT, rule.code, rule.retryable)


def _by_reason(exc: BaseException, rule: _Rule) -> Verdict | None:
    """A wrapper that is a network error only if what it wraps is one."""
    inner = _reason(exc)
    return None if inner is None else _error(ErrorType.TRANSPORT, inner.code, inner.retryable)


def _tls(exc: BaseException, rule: _Rule) -> Verdict:
    waiting, seen = [exc], 0
    while waiting and seen < 16:
        seen += 1
        for inner in _inside(waiting.pop(0)):
            if _facts(type(inner)).rule is _UNTRUSTED:
                return _error(ErrorType.TRANSPORT, "tls", False)
            waiting.append(inner)
    return _error(ErrorType.TRANSPORT, "tls", rule.retryable)


_UNREACHABLE: Final = frozenset(
    getattr(errno, name)
    for name in ("ENETDOWN", "ENETUNREACH", "EHOSTDOWN", "EHOSTUNREACH", "EADDRNOTAVAIL")
    if hasattr(errno, name)
)


def _by_errno(exc: BaseException, rule: _Rule) -> Verdict | None:
    number = _get(exc, "errno")
    if type(number) is int and number in _UNREACHABLE:
        return _error(ErrorType.TRANSPORT, rule.code, rule.retryable)
    return None


def _by_status(exc: BaseException, rule: _Rule) -> Verdict | None:
    """A known HTTP error class, whose ``status`` or ``code`` is a status."""
    status = _status(exc, "status", "code")
    return _http_error(exc, status) if status else None


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
    return _error(ErrorType.PROVIDER_ERROR, code, _retryable(status), status, _retry_after(exc))


def _spent(exc: BaseException, rule: _Rule) -> Verdict:
    return _error(rule.error_type, rule.code, False, _status(exc) or None, _retry_after(exc))


def _provider(exc: BaseException, rule: _Rule) -> Verdict:
    """An error that a model provider's SDK raised: by status, and by the provider's own code."""
    status = _status(exc, "code")
    body = _get(exc, "body")
    named: list[object] = [_get(exc, "code"), _get(exc, "type")]
    for part in (body, body.get("error") if type(body) is dict else None):
        if type(part) is dict:
            named += (part.get("code"), part.get("type"))
    if status == 402 or any(type(name) is str and name in _QUOTA for name in named):
        return _error(ErrorType.PROVIDER_ERROR, "quota_exhausted", False, status or None, _retry_after(exc))
    if not status:
        return _error(ErrorType.PROVIDER_ERROR, rule.code or _facts(type(exc)).code, rule.retryable)
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


def _aws(exc: BaseException, rule: _Rule) -> Verdict | None:
    """botocore has one class for every service: a Bedrock runtime call is known by its operation."""
    response = _get(exc, "response")
    parts = response if type(response) is dict else {}
    metadata, failure = parts.get("ResponseMetadata"), parts.get("Error")
    status = _http(metadata.get("HTTPStatusCode")) if type(metadata) is dict else 0
    name = failure.get("Code") if type(failure) is dict else None
    operation = _get(exc, "operation_name")
    if type(operation) is not str or operation not in _MODEL_OPERATIONS:
        return _http_error(exc, status) if status else None
    name = name if type(name) is str else ""
    if name in _AWS_CODES:
        code, retryable = _AWS_CODES[name]
        return _error(ErrorType.PROVIDER_ERROR, code, retryable, status or None, _retry_after(exc))
    if status:
        return _provider_status(exc, status)
    return _error(ErrorType.PROVIDER_ERROR, code_of(name or "ClientError"))


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


def _grpc(exc: BaseException, rule: _Rule) -> Verdict | None:
    """Unavailable and deadline are the network's; any other code is the service's own answer."""
    try:
        name = exc.code().name  # type: ignore[attr-defined]
    except Exception:
        return None
    if name == "UNAVAILABLE":
        return _error(ErrorType.TRANSPORT, "connection_error", True)
    if name == "DEADLINE_EXCEEDED":
        return _error(ErrorType.TRANSPORT, "timeout")
    if type(name) is not str:
        return None
    return _error(ErrorType.TOOL_DECLARED, f"grpc_{code_of(name)}", _GRPC_RETRYABLE.get(name))


def _mcp(exc: BaseException, rule: _Rule) -> Verdict | None:
    """JSON-RPC codes; 408 is how the 1.x client reports its own time limit."""
    code = _get(_get(exc, "error"), "code")
    if type(code) is not int:
        return None
    if code == -32000:
        return _error(ErrorType.TRANSPORT, "connection_closed")
    if code in (-32001, 408):
        return _error(ErrorType.TRANSPORT, "timeout")
    if code == -32602:
        return _error(ErrorType.SCHEMA_MISMATCH, "invalid_arguments", False)
    retryable = False if code in (-32700, -32600, -32601) else None
    return _error(ErrorType.PROVIDER_ERROR, f"jsonrpc_{abs(code)}"[:64], retryable)


# ---- the table ---------------------------------------------------------------------------------------

_TIMEOUT: Final = _Rule(ErrorType.TRANSPORT, "timeout")
_REFUSED: Final = _Rule(ErrorType.TRANSPORT, "connection_refused", True)
_RESET: Final = _Rule(ErrorType.TRANSPORT, "connection_reset")
_DNS: Final = _Rule(ErrorType.TRANSPORT, "dns", True)
_UNTRUSTED: Final = _Rule(ErrorType.TRANSPORT, "tls", False)
_HANDSHAKE: Final = _Rule(ErrorType.TRANSPORT, "tls", None)
_TLS: Final = _Rule(ErrorType.TRANSPORT, "tls", None, _tls)
_CONNECTION: Final = _Rule(ErrorType.TRANSPORT, "connection_error", True, _network)
_BROKEN: Final = _Rule(ErrorType.TRANSPORT, "connection_error", None, _network)  # maybe after sending
_WRAPPER: Final = _Rule(ErrorType.TRANSPORT, "connection_error", None, _by_reason)
_ERRNO: Final = _Rule(ErrorType.TRANSPORT, "connection_error", True, _by_errno)
_STATUS: Final = _Rule(ErrorType.HTTP_STATUS, "", None, _by_status)
_DECODING: Final = _Rule(ErrorType.TRANSFORM, "", False)
_CSV: Final = _Rule(ErrorType.TRANSFORM, "csv_error", False)
_PROVIDER: Final = _Rule(ErrorType.PROVIDER_ERROR, "", None, _provider, before_status=True)
_SPENT: Final = _Rule(ErrorType.PROVIDER_ERROR, "quota_exhausted", False, _spent, before_status=True)
_SDK_TIMEOUT: Final = _TIMEOUT._replace(before_status=True)
_SDK_CONNECTION: Final = _CONNECTION._replace(before_status=True)
_AWS: Final = _Rule(ErrorType.HTTP_STATUS, "", None, _aws, before_status=True)
_GRPC: Final = _Rule(ErrorType.TRANSPORT, "", None, _grpc, before_status=True)
_MCP: Final = _Rule(ErrorType.PROVIDER_ERROR, "", None, _mcp, before_status=True)
_FALLBACK: Final = _Rule(ErrorType.TOOL_DECLARED, "", None, lambda exc, rule: None)  # ends the search


def _rows(rule: _Rule, prefix: str, names: str) -> dict[str, _Rule]:
    return {f"{prefix}.{name}": rule for name in names.split()}


# Dotted class name -> rule. The first class of the MRO that is named here decides.
_TABLE: Final[dict[str, _Rule]] = {
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
    **_rows(_SDK_CONNECTION, "mistralai.client.errors.no_response_error", "NoResponseError"),
    **_rows(_PROVIDER, "mistralai.models.mistralerror", "MistralError"),
    **_rows(_SDK_CONNECTION, "mistralai.models.no_response_error", "NoResponseError"),
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
    **_rows(_DECODING, "binascii", "Error"),
    **_rows(_DECODING, "xml.etree.ElementTree", "ParseError"),
    **_rows(_DECODING, "xml.parsers.expat", "ExpatError"),
    **_rows(_DECODING, "xml.sax._exceptions", "SAXParseException"),
    **_rows(_DECODING, "lxml.etree", "ParseError"),
    **_rows(_CSV, "_csv", "Error"),
    **_rows(_DECODING, "pandas.errors", "ParserError"),
    **_rows(_DECODING, "yaml.error", "YAMLError"),
    **_rows(_DECODING, "ruamel.yaml.error", "YAMLError"),
    **_rows(_DECODING, "tomllib", "TOMLDecodeError"),
    **_rows(_DECODING, "tomli", "TOMLDecodeError"),
    **_rows(_DECODING, "pydantic_core._pydantic_core", "ValidationError"),
    **_rows(_DECODING, "pydantic.v1.error_wrappers", "ValidationError"),
    **_rows(_DECODING, "pydantic.error_wrappers", "ValidationError"),
    **_rows(_DECODING, "msgspec", "DecodeError"),
    **_rows(_DECODING, "jsonschema.exceptions", "ValidationError"),
}
_TABLE["binascii.Error"] = _DECODING._replace(code="binascii_error")

# Dotted class name -> how the call ended without failing.
_ENDINGS: Final[dict[str, Outcome]] = {
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
    "crewai.flow.async_feedback.types.HumanFeedbackPending": Outcome.INTERRUPTED,
}

_GROUPS: Final = frozenset(
    (
        "builtins.BaseExceptionGroup",
        "exceptiongroup.BaseExceptionGroup",
        "exceptiongroup._exceptions.BaseExceptionGroup",
    )
)

# The table's order, for groups.
_RANK: Final[dict[ErrorType | None, int]] = {
    ErrorType.SCHEMA_MISMATCH: 0,
    ErrorType.HTTP_STATUS: 1,
    ErrorType.TRANSPORT: 2,
    ErrorType.PROVIDER_ERROR: 3,
    ErrorType.TRANSFORM: 4,
    ErrorType.TOOL_DECLARED: 5,
}
_FELL_BACK: Final = 8
_ENDED: Final = 9


# ---- what is remembered of a type --------------------------------------------------------------------

Classifier = Callable[[BaseException], "Verdict | None"]
_classifiers: dict[type | str, Classifier] = {}


class _Facts(NamedTuple):
    rule: _Rule | None
    code: str
    ending: Outcome | None
    group: bool
    classifiers: tuple[Classifier, ...]


_facts_of: dict[type, _Facts] = {}


def _facts(kind: type) -> _Facts:
    """What the tables say of ``kind``, by its MRO."""
    known = _facts_of  # replaced, not cleared, when a classifier is registered meanwhile
    try:
        found = known.get(kind)
        if found is None:
            found = _look_up(kind)
            if len(known) >= _TYPES:
                known.clear()
            known[kind] = found
    except Exception:  # a metaclass that cannot be hashed
        return _look_up(kind)
    return found


def _dotted(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _look_up(kind: type) -> _Facts:
    rule: _Rule | None = None
    ending: Outcome | None = None
    group = False
    classifiers: list[Classifier] = []
    for base in kind.__mro__:
        name = _dotted(base)
        rule = rule or _TABLE.get(name)
        ending = ending or _ENDINGS.get(name)
        group = group or name in _GROUPS
        classifiers += [fn for key in (base, name) if (fn := _classifiers.get(key)) is not None]
    return _Facts(rule, code_of(kind.__name__), ending, group, tuple(classifiers))


_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def code_of(cls_name: str) -> str:
    """A class name as an errorCode: ``JSONDecodeError`` -> ``json_decode_error``.

    Args:
        cls_name: the class's bare name.

    Returns:
        A slug of at most 64 characters; ``unspecified`` where nothing of the name is left.
    """
    words = _WORDS.sub("_", cls_name[:256]).lower()
    return re.sub(r"[^a-z0-9]+", "_", words).strip("_")[:64].rstrip("_") or "unspecified"


# ---- the verdict -------------------------------------------------------------------------------------


def _cut(text: str) -> str:
    """At most 1,024 bytes of UTF-8, ended at a code point."""
    text = str.__getitem__(text, slice(_DETAIL_BYTES))
    if text.isascii():
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= _DETAIL_BYTES:
        return text
    end = _DETAIL_BYTES
    while encoded[end] & 0xC0 == 0x80:
        end -= 1
    return encoded[:end].decode("utf-8", "surrogatepass")


def _message(exc: BaseException) -> str:
    """The exception's own message; its class name where that is empty or raises."""
    try:
        text = _cut(str(exc))
        if text and not text.isspace():
            return text
    except Exception:
        pass
    return _cut(type(exc).__name__)


def _read(exc: BaseException, facts: _Facts) -> Verdict | None:
    """What this one exception means; None: nothing but its class is known."""
    for classifier in facts.classifiers:
        if (verdict := _asked(classifier, exc)) is not None:
            return verdict
    rule = facts.rule
    if rule is not None and rule.before_status:
        return rule.read(exc, rule) if rule.read else _by_rule(rule, facts)
    status = _status(exc)
    if status >= 400:
        return _http_error(exc, status)
    if rule is not None:
        verdict = rule.read(exc, rule) if rule.read else _by_rule(rule, facts)
        if verdict is not None:
            return verdict
    # a status that is no error's says little: whatever the class says goes first
    return _http_error(exc, status) if status else None


def _by_rule(rule: _Rule, facts: _Facts) -> Verdict:
    return _error(rule.error_type, rule.code or facts.code, rule.retryable)


class _Walk:
    """From the outermost exception inwards, along causes and through groups, for one verdict."""

    __slots__ = ("control_flow", "left")

    def __init__(self, control_flow: tuple[type[BaseException], ...]) -> None:
        self.control_flow = control_flow
        self.left = _LINKS

    def judge(self, head: BaseException, depth: int = 0) -> tuple[int, Verdict]:
        """Rank and verdict; the detail is always the message of ``head``, or of a group's member."""
        facts = _facts(type(head))
        if self.control_flow and isinstance(head, self.control_flow):
            return _ENDED, Verdict(Outcome.INTERRUPTED)
        if facts.ending is not None:
            return _ENDED, Verdict(facts.ending)
        link: BaseException | None = head
        fallback: Verdict | None = None
        while link is not None and self.left > 0:
            self.left -= 1
            found = _read(link, facts) if facts.ending is None else None
            if found is not None:
                return _RANK.get(found.error_type, _ENDED), _detailed(found, head)
            if facts.group and depth < _DEPTH:
                rank, member = self.judge_group(link, depth + 1)
                if rank < _FELL_BACK:
                    return rank, member if link is head else _detailed(member._replace(detail=None), head)
                if link is head:
                    if rank == _ENDED:
                        return rank, member
                    fallback = member
            link = _cause_of(link)
            if link is not None:
                facts = _facts(type(link))
        return _FELL_BACK, fallback or _fallback(head)

    def judge_group(self, group: BaseException, depth: int) -> tuple[int, Verdict]:
        """The member that ranks first; retryable only if every member is."""
        judged: list[tuple[int, Verdict]] = []
        complete = True
        for member in _members(group):
            if self.left <= 0:
                complete = False
                break
            judged.append(self.judge(member, depth))
        failed = [pair for pair in judged if pair[0] != _ENDED]
        if not failed:
            if not judged:
                return _FELL_BACK, _fallback(group)
            outcomes = {verdict.outcome for _, verdict in judged}
            for outcome in (Outcome.INTERRUPTED, Outcome.CANCELLED):
                if outcome in outcomes:
                    return _ENDED, Verdict(outcome)
            return judged[0]
        rank, verdict = min(failed, key=lambda pair: pair[0])
        answers = {other.retryable for _, other in failed}
        if answers != {True} or not complete:
            verdict = verdict._replace(retryable=False if False in answers else None)
        return rank, verdict


def _fallback(exc: BaseException) -> Verdict:
    code = _facts(type(exc)).code
    return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, code, _message(exc))


def _detailed(found: Verdict, exc: BaseException) -> Verdict:
    outcome, error_type, code, detail, retryable, status, retry_after = found
    if detail is None and outcome is Outcome.ERROR:
        detail = _message(exc)
    return Verdict(outcome, error_type, code, detail, retryable, status, retry_after)


def classify(exc: BaseException, *, control_flow: tuple[type[BaseException], ...] = ()) -> Verdict:
    """What an exception that escaped a tool's body means.

    Types and typed attributes decide; text never does. The search goes inwards along ``__cause__`` and
    through exception groups, bounded; the exception itself is left as it is.

    Args:
        exc: the exception.
        control_flow: types that the tool raises to pause or hand over.

    Returns:
        ``interrupted`` for control flow, ``cancelled`` or ``closed`` for an ended call, else ``error``.
        ``retry_after`` is the ``Retry-After`` header in seconds, from 0 to a day (more is cut to a day);
        None where it is absent or not understood. ``detail`` is the exception's own message, at most
        1,024 bytes, or its class name where the message is empty or raises. Never raises.
    """
    try:
        return _Walk(control_flow).judge(exc)[1]
    except Exception:
        warn_once("classify", "%s could not be classified; recorded by its class name", type(exc).__name__)
        return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, code_of(type(exc).__name__), _message(exc))


_NOT_JSON: Final = frozenset(("json.decoder.JSONDecodeError", "simplejson.errors.JSONDecodeError"))


def classify_arguments(exc: BaseException) -> Verdict:
    """What an exception means that was raised while arguments were bound or validated.

    Args:
        exc: the exception; the body must not have run.

    Returns:
        ``schema_mismatch``: ``malformed_arguments`` for text that is no JSON, else ``invalid_arguments``.
        A cancellation stays one. Never raises.
    """
    try:
        facts = _facts(type(exc))
        if facts.ending is not None:
            return Verdict(facts.ending)
        malformed = any(_dotted(base) in _NOT_JSON for base in type(exc).__mro__) or _is_json_invalid(exc)
    except Exception:
        malformed = False
    return _mismatch("malformed_arguments" if malformed else "invalid_arguments", _message(exc))


def _is_json_invalid(exc: BaseException) -> bool:
    """pydantic reports text that is no JSON as one error of this type."""
    if _dotted(type(exc)) != "pydantic_core._pydantic_core.ValidationError":
        return False
    errors = exc.errors(include_url=False, include_context=False, include_input=False)  # type: ignore[attr-defined]
    return bool(errors) and errors[0].get("type") == "json_invalid"


def _mismatch(code: str, detail: str) -> Verdict:
    return Verdict(Outcome.ERROR, ErrorType.SCHEMA_MISMATCH, code, detail, False)


def _given(text: object, otherwise: str) -> str:
    try:
        return _cut(text if type(text) is str else str(text)) or otherwise
    except Exception:
        return otherwise


def unknown_tool(name: str) -> Verdict:
    """A call of a tool that does not exist."""
    return _mismatch("unknown_tool", _cut(f"no tool is named {_given(name, '')[:256]!r}"))


def malformed_arguments(detail: str) -> Verdict:
    """A call whose argument text is no JSON object."""
    return _mismatch("malformed_arguments", _given(detail, "the arguments are not valid JSON"))


def circuit_open(detail: str) -> Verdict:
    """A call that the circuit breaker refused."""
    return Verdict(Outcome.ERROR, ErrorType.TRANSPORT, "circuit_open", _given(detail, "the circuit is open"))


def policy_denied(detail: str) -> Verdict:
    """A call that a policy refused."""
    detail = _given(detail, "denied by policy")
    return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, "policy_denied", detail, False)


def not_executed(reason: str) -> Verdict:
    """A call whose body did not run, for ``reason``."""
    return Verdict(Outcome.NOT_EXECUTED, detail=_given(reason, "not executed"))


def invalid_result(detail: str, severity: Literal["warn", "error"]) -> Verdict:
    """A result that does not match the schema enforced on it.

    Args:
        detail: what does not match.
        severity: ``error``, or ``warn`` for a warning.
    """
    detail = _given(detail, "the result does not match its schema")
    if severity == "error":
        return _mismatch("invalid_result", detail)
    return Verdict(Outcome.WARNING, ErrorType.SCHEMA_MISMATCH, "invalid_result", detail)


# ---- a user's own rules ------------------------------------------------------------------------------


def register_classifier(type_or_dotted_name: type[BaseException] | str, fn: Classifier) -> None:
    """Add a rule for one exception class and its subclasses, asked before the table.

    Args:
        type_or_dotted_name: the class, or its dotted name (``redis.exceptions.ConnectionError``), which
            spares the import. The most derived class is asked first; a later rule for the same class
            replaces the earlier one.
        fn: takes the exception; returns its `Verdict`, or None to leave it to the next rule. The outcome
            must be ``error`` with an errorType and an errorCode, ``interrupted``, ``cancelled`` or
            ``closed``. Without a detail, the exception's message is taken. A function that raises or
            returns anything else is passed over, with one warning.

    Raises:
        TypeError: an argument is neither.
    """
    global _facts_of
    key: type | str = type_or_dotted_name
    if isinstance(key, str):
        if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*|\.<locals>)+", key):
            raise TypeError(
                f"register_classifier: {key!r} is no dotted class name; "
                "give the full path, such as 'redis.exceptions.ConnectionError'"
            )
    elif not (isinstance(key, type) and issubclass(key, BaseException)):
        raise TypeError(
            f"register_classifier: expected an exception class or its dotted name, got {_shown(key)}"
        )
    if not callable(fn):
        raise TypeError(
            "register_classifier: expected a function from an exception to a Verdict or None, "
            f"got {_shown(fn)}"
        )
    _classifiers[key] = fn
    _facts_of = {}


def _shown(value: object) -> str:
    try:
        return repr(value)[:80]
    except Exception:
        return f"<{type(value).__name__}>"


def _asked(classifier: Classifier, exc: BaseException) -> Verdict | None:
    """The classifier's verdict, brought into order; None where it has none or none that can be used."""
    try:
        verdict = classifier(exc)
    except Exception as problem:
        warn_once(
            f"classifier:{id(classifier)}:raised",
            "the classifier registered for %s raised %s; it is passed over",
            type(exc).__name__,
            type(problem).__name__,
        )
        return None
    if verdict is None:
        return None
    if isinstance(verdict, Verdict):
        if verdict.outcome in (Outcome.INTERRUPTED, Outcome.CANCELLED, Outcome.CLOSED):
            return Verdict(Outcome(verdict.outcome))
        if verdict.outcome == Outcome.ERROR and verdict.error_type in _RANK and verdict.code is not None:
            return _in_order(verdict)
    warn_once(
        f"classifier:{id(classifier)}:returned",
        "the classifier registered for %s returned %s; expected None or a Verdict with outcome error, "
        "errorType and errorCode, or with outcome interrupted, cancelled or closed; it is passed over",
        type(exc).__name__,
        _shown(verdict),
    )
    return None


def _in_order(given: Verdict) -> Verdict:
    return Verdict(
        Outcome.ERROR,
        ErrorType(given.error_type),
        slug(given.code),
        None if given.detail is None else _given(given.detail, "") or None,
        given.retryable if type(given.retryable) is bool else None,
        _http(given.http_status) or None,
        _seconds(given.retry_after),
    )


# ---- results that a framework declares failed --------------------------------------------------------


class _Declared(NamedTuple):
    """Where a framework's result says that it failed, and where its text is."""

    flag: str
    failed: tuple[object, ...]
    text: str
    code: str = ""  # the attribute that holds the owner's code


# Dotted class name -> where it says so.
_RESULTS: Final[dict[str, _Declared]] = {
    "mcp.types.CallToolResult": _Declared("isError", (True,), "content"),
    "mcp_types._types.CallToolResult": _Declared("is_error", (True,), "content"),
    "fastmcp.tools.base.ToolResult": _Declared("is_error", (True,), "content"),
    "fastmcp.tools.tool.ToolResult": _Declared("is_error", (True,), "content"),
    "fastmcp.client.client.CallToolResult": _Declared("is_error", (True,), "content"),
    "langchain_core.messages.tool.ToolMessage": _Declared("status", ("error",), "content"),
    "crewai.tools.tool_failure.ToolFailure": _Declared("__class__", (), "message", "code"),
    "llama_index.core.tools.types.ToolOutput": _Declared("is_error", (True,), "content"),
    "autogen_core.tools._workbench.ToolResult": _Declared("is_error", (True,), "result"),
    "haystack.dataclasses.chat_message.ToolCallResult": _Declared("error", (True,), "result"),
    "pydantic_ai.messages.BaseToolReturnPart": _Declared("outcome", ("failed", "retried"), "content"),
}

_NO_TEXT: Final = "the tool reported an error without text"
_unseen: Final = _Declared("", (), "")
_declared_of: dict[type, _Declared | None] = {}


def declared_by_result(result: object) -> Verdict | None:
    """A framework's own declaration that a result is a failure; None for anything else.

    Classes are known by dotted name; somebody's own dict or object with an ``error`` key is no
    declaration. One dictionary look-up for a type seen before.

    Args:
        result: what the tool returned.

    Returns:
        ``tool_declared`` / ``tool_error`` (or the owner's own code), or None. Never raises.
    """
    try:
        declared = _declared_of.get(type(result), _unseen)
        if declared is None:
            return None
        if declared is _unseen:
            declared = _find_declared(type(result))
            if declared is None:
                return None
        return _declaration(result, declared)
    except Exception:
        return None


def _find_declared(kind: type) -> _Declared | None:
    found = next((row for base in kind.__mro__ if (row := _RESULTS.get(_dotted(base)))), None)
    if len(_declared_of) >= _TYPES:
        _declared_of.clear()
    _declared_of[kind] = found
    return found


def _declaration(result: object, declared: _Declared) -> Verdict | None:
    if declared.failed and _get(result, declared.flag) not in declared.failed:
        return None
    code = _get(result, declared.code) if declared.code else None
    return _tool_error(_get(result, declared.text), slug(code) if code else "tool_error")


def mcp_failure(result: object) -> Verdict | None:
    """The same for a result that its caller knows to be MCP's, whatever its class.

    Args:
        result: an object with ``is_error`` (2.x) or ``isError`` (1.x) and ``content``.

    Returns:
        ``tool_declared`` / ``tool_error``, or None. Never raises.
    """
    if _get(result, "is_error") is True or _get(result, "isError") is True:
        return _tool_error(_get(result, "content"), "tool_error")
    return None


def _tool_error(content: object, code: str) -> Verdict:
    text = "\n".join(_texts(content))
    detail = _cut(text) if text and not text.isspace() else _NO_TEXT
    return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, code, detail)


def _texts(content: object) -> Iterator[str]:
    """The text parts of a result's content, which is a string or a list of blocks."""
    try:
        blocks = content[:32] if isinstance(content, (list, tuple)) else (content,)
        for block in blocks:
            text = block.get("text") if isinstance(block, dict) else block
            if not isinstance(text, str):
                text = _get(block, "text")
            if not isinstance(text, str):
                text = _get(block, "content")
            if isinstance(text, str) and text:
                yield text[:_DETAIL_BYTES]
    except Exception:
        return
