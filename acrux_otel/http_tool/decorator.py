# SPDX-License-Identifier: Apache-2.0
"""`http_tool`: a function's signature and docstring, with a request in place of its body."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from acrux_otel.definition import ToolAnnotations
from acrux_otel.definition.signature import display_name, local_names, resolved_hints
from acrux_otel.http_tool.exchange import Exchange, Headers
from acrux_otel.http_tool.request import METHODS, RequestShape
from acrux_otel.http_tool.response import ResponseMeaning
from acrux_otel.tool import ToolOptions, check_options, decorate

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["http_tool"]

F = TypeVar("F", bound=Callable[..., Any])

# What RFC 9110 (9.2) says of each method; the owner may know better.
_ANNOTATIONS: Final = {
    "GET": ToolAnnotations(read_only=True, idempotent=True),
    "HEAD": ToolAnnotations(read_only=True, idempotent=True),
    "PUT": ToolAnnotations(idempotent=True),
    "DELETE": ToolAnnotations(idempotent=True, destructive=True),
}


def http_tool(
    method: str,
    url: str,
    *,
    query: Collection[str] = (),
    body: str | None = None,
    headers: Headers = None,
    failure_when: str | None = None,
    warn_when: str | None = None,
    error_code: str | None = None,
    error_message: str | None = None,
    response: str | None = None,
    timeout: float = 30.0,
    max_bytes: int = 1024 * 1024,
    client: Any = None,
    **options: Unpack[ToolOptions],
) -> Callable[[F], F]:
    """Make a tool of an HTTP request: the decorated function's body never runs.

    Its parameters are the request's: those that ``url`` names as ``{name}`` go there, encoded; the others
    into the query (GET, HEAD, DELETE) or into a JSON object (POST, PUT, PATCH). None is not sent where the
    parameter has a default. The response becomes the function's return type, as pydantic makes it; without
    one it is JSON, text or bytes, by its content type.

    A status of 300 and above raises httpx.HTTPStatusError. The expressions are JMESPath over the JSON body.

    Args:
        method: GET, HEAD, POST, PUT, PATCH or DELETE.
        url: absolute, or relative to the client's ``base_url``.
        query: parameters that go into the query of a POST, PUT or PATCH.
        body: the parameter that is the whole JSON body.
        headers: of every request, or a callable that makes them (async in an async tool).
        failure_when: the call failed where this is true of the response, whatever its status.
        warn_when: the same, for a warning.
        error_code: the errorCode of either.
        error_message: its text, also of a failing status.
        response: what the tool returns of the response.
        timeout: seconds for the whole exchange.
        max_bytes: of the response's body.
        client: an httpx.Client (AsyncClient for an async function) whose connections, proxies and
            authentication are used. By default each call makes its own.
        options: as `tool` takes them, but for ``inject``.

    Raises:
        TypeError, ValueError: what can never work.
        ImportError: the extra ``http`` is not installed.
    """
    _need_http()
    check_options(options, "http_tool")
    if options.get("inject"):
        raise TypeError("http_tool(inject=): nothing is handed in to a request; give headers= or client=")
    _check(method, url, query, timeout, max_bytes, headers)

    def declare(function: F) -> F:
        name = display_name(function)
        signature = _signature(function, name)
        is_async = inspect.iscoroutinefunction(function)
        _check_client(client, is_async, url)
        try:
            shape = RequestShape(method, url, signature, query, body)
            meaning = ResponseMeaning(
                failure_when=failure_when,
                warn_when=warn_when,
                code=error_code,
                message=error_message,
                value=response,
                returns=_maker(function),
            )
        except ValueError as error:
            raise ValueError(f"http_tool {name}: {error}") from None
        exchange = Exchange(
            shape, meaning, headers=headers, timeout=timeout, max_bytes=max_bytes, client=client
        )
        given: dict[str, Any] = {
            **options,
            "annotations": _annotations(method, options.get("annotations")),
            "request": {"method": method, "url": _published(url, client)},
        }
        made: F = decorate(_body(function, signature, exchange, is_async), given)
        return made

    return declare


def _need_http() -> None:
    try:
        import httpx  # noqa: F401
        import jmespath  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"http_tool needs {error.name}; install it with: pip install 'acrux-otel[http]'"
        ) from None


def _check(
    method: str, url: str, query: Collection[str], timeout: float, max_bytes: int, headers: Headers
) -> None:
    if method not in METHODS:
        raise ValueError(f"http_tool: the method is {method!r:.40}; expected {', '.join(METHODS)}")
    if not isinstance(url, str):
        raise TypeError(f"http_tool: the url is {type(url).__name__}; expected text")
    parts = urlsplit(url)
    if parts.scheme not in ("", "http", "https") or bool(parts.scheme) != bool(parts.netloc):
        raise ValueError(f"http_tool: the url is {url!r:.200}; expected one like https://host/path/{{name}}")
    if "@" in parts.netloc:
        raise ValueError(
            "http_tool: the url has credentials, which a catalog would show; use headers= or client="
        )
    if parts.fragment:
        raise ValueError(f"http_tool: the url has a fragment, {parts.fragment!r:.80}, which is never sent")
    if isinstance(query, str):
        raise TypeError(f"http_tool(query=) is {query!r:.80}; expected a list of parameters")
    for name, number in (("timeout", timeout), ("max_bytes", max_bytes)):
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < float("inf"):
            raise ValueError(f"http_tool({name}=) is {number!r:.80}; expected a number above 0")
    if headers is not None and not callable(headers) and not isinstance(headers, Mapping):
        raise TypeError(f"http_tool(headers=) is {type(headers).__name__}; expected a mapping or a callable")


def _check_client(client: Any, is_async: bool, url: str) -> None:
    import httpx

    wanted = httpx.AsyncClient if is_async else httpx.Client
    if client is not None and not isinstance(client, wanted):
        raise TypeError(
            f"http_tool(client=) is {type(client).__name__}; {'an async' if is_async else 'a plain'} "
            f"function takes an httpx.{wanted.__name__}"
        )
    if not urlsplit(url).scheme and not (client is not None and client.base_url.host):
        raise ValueError(
            f"http_tool: the url is {url!r:.200}; expected https://…, or a client= with a base_url"
        )


def _signature(function: Any, name: str) -> inspect.Signature:
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"http_tool was given {function!r:.80}; expected a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"http_tool {name}: a generator cannot be a request; leave yield out")
    signature = inspect.signature(function)
    for each in signature.parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise TypeError(f"http_tool {name}: {each} has no place in a request; name the parameters")
    first = next(iter(signature.parameters), None)
    if first in ("self", "cls") and "." in function.__qualname__:
        raise TypeError(f"http_tool {name}: a method cannot be a request; write a function")
    return signature


def _body(function: Any, signature: inspect.Signature, exchange: Exchange, is_async: bool) -> Any:
    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:  # raised here, as Python's own calls raise it
            raise TypeError(f"{function.__name__}(): {error}") from None
        bound.apply_defaults()
        return bound.arguments

    if is_async:

        @functools.wraps(function)
        async def request_async(*args: Any, **kwargs: Any) -> Any:
            return await exchange.send_async(arguments(args, kwargs))

        return request_async

    @functools.wraps(function)
    def request(*args: Any, **kwargs: Any) -> Any:
        return exchange.send(arguments(args, kwargs))

    return request


def _maker(function: Any) -> Callable[[Any], Any]:
    """What makes the function's return type of a response; the type is looked at when it is first needed."""
    names = local_names(function)

    @functools.cache
    def adapter() -> Any:
        hint = resolved_hints(function, names).get("return", Any)
        if hint in (Any, object):
            return None
        from pydantic import TypeAdapter

        return TypeAdapter(hint)

    def make(value: Any) -> Any:
        wanted = adapter()
        return value if wanted is None else wanted.validate_python(value)

    return make


def _annotations(method: str, given: ToolAnnotations | None) -> ToolAnnotations:
    usual = _ANNOTATIONS.get(method, ToolAnnotations())
    said = {} if given is None else dataclasses.asdict(given)
    if said.get("destructive") and usual.read_only:
        usual = dataclasses.replace(usual, read_only=None)
    return dataclasses.replace(usual, **{key: value for key, value in said.items() if value is not None})


def _published(url: str, client: Any) -> str:
    """The url as a catalog may show it: a query may hold a key."""
    shown = url.partition("?")[0]
    if urlsplit(url).scheme:
        return shown
    return f"{str(client.base_url).rstrip('/')}/{shown.lstrip('/')}"
