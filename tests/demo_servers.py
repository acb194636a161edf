# SPDX-License-Identifier: Apache-2.0
"""Loopback servers that the demo's tests talk to: an OTLP receiver, a chat completions API, a proxy."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Server(ThreadingHTTPServer):
    """Runs from `with` to the end of the block on a free loopback port."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Any]:
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Any
    timeout = 20

    def body(self) -> bytes:
        sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
        return gzip.decompress(sent) if self.headers.get("Content-Encoding") == "gzip" else sent

    def answer(self, status: int, payload: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class OtlpReceiver(Server):
    """An OTLP/HTTP protobuf endpoint that keeps every span."""

    def __init__(self) -> None:
        super().__init__(_Otlp)
        self.spans: list[Span] = []
        self.services: set[str] = set()


class _Otlp(_Handler):
    def do_POST(self) -> None:
        body = self.body()
        if self.path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                told = attributes(resource.resource.attributes)
                self.server.services.add(told["service.name"])
                for scope in resource.scope_spans:
                    self.server.spans.extend(scope.spans)
        self.answer(200, ExportTraceServiceResponse().SerializeToString(), "application/x-protobuf")


def attributes(pairs: Any) -> dict[str, Any]:
    """OTLP key-value pairs as a dict."""
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


class ChatCompletions(Server):
    """The chat completions API of a model that calls the one tool it is offered, then answers.

    Like the real API it refuses what a client gets wrong: the key, the path, a tool result that belongs to
    no call, a call without a result.

    Args:
        arguments: the argument text of each call in turn; the last one again when they run out. `{city}`
            stands for the city in the question.
        hang: wait for the server's end instead of answering.
    """

    key = "test-key"

    def __init__(self, arguments: tuple[str, ...] = ('{"city": "{city}"}',), hang: bool = False) -> None:
        super().__init__(_Chat)
        self.arguments = arguments
        self.asked = threading.Event()
        self.ended = threading.Event()
        self.hang = hang

    @contextlib.contextmanager
    def running(self) -> Iterator[Any]:
        with super().running():
            try:
                yield self
            finally:
                self.ended.set()


class _Chat(_Handler):
    def do_POST(self) -> None:
        request = json.loads(self.body())
        self.server.asked.set()
        if self.server.hang:
            self.server.ended.wait(20)
            return
        problem = self._refusal(request)
        if problem:
            status, message = problem
            error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
            self.answer(status, json.dumps({"error": error}).encode())
        else:
            self.answer(200, json.dumps(self._completion(request)).encode())

    def _refusal(self, request: dict[str, Any]) -> tuple[int, str] | None:
        if self.headers.get("Authorization") != f"Bearer {self.server.key}":
            return 401, "Incorrect API key provided"
        if self.path != "/v1/chat/completions":
            return 404, f"Unknown request URL: POST {self.path}"
        open_calls: set[str] = set()
        for message in request["messages"]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in open_calls:
                    return 400, "messages with role 'tool' must be a response to a preceding 'tool_calls'"
                open_calls.remove(message["tool_call_id"])
            elif open_calls:
                return 400, f"tool_call_ids did not have response messages: {', '.join(open_calls)}"
            open_calls |= {call["id"] for call in message.get("tool_calls") or ()}
        if open_calls:
            return 400, f"tool_call_ids did not have response messages: {', '.join(open_calls)}"
        schema = request["tools"][0]["function"]["parameters"]
        if schema["type"] != "object" or "city" not in schema["required"]:
            return 400, "Invalid schema for function"
        return None

    def _completion(self, request: dict[str, Any]) -> dict[str, Any]:
        results = [json.loads(m["content"]) for m in request["messages"] if m["role"] == "tool"]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        finish = "stop"
        if len(results) < len(self.server.arguments):
            question = request["messages"][0]["content"]
            city = question.rpartition(" in ")[2].rstrip("?")
            arguments = self.server.arguments[len(results)].replace("{city}", city)
            name = request["tools"][0]["function"]["name"]
            call = {"id": f"call_{len(results)}", "type": "function"}
            message["tool_calls"] = [{**call, "function": {"name": name, "arguments": arguments}}]
            finish = "tool_calls"
        else:
            message["content"] = f"The tool told me: {results[-1].get('city') or results[-1].get('error')}"
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": f"{request['model']}-2026",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42},
        }


class Proxy(Server):
    """A proxy that notes what it is asked for and passes nothing on."""

    def __init__(self) -> None:
        super().__init__(_Refusing)
        self.asked_for: list[str] = []


class _Refusing(_Handler):
    def _refuse(self) -> None:
        self.server.asked_for.append(f"{self.command} {self.path}")
        self.answer(502, b"")

    do_CONNECT = do_GET = do_POST = _refuse
