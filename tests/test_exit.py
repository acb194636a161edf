# SPDX-License-Identifier: Apache-2.0
"""A27: whatever the endpoint does, the program is not slowed, and its end is held for a bounded time."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from otlp_receivers import (
    PRELUDE,
    Program,
    black_hole,
    closed_port,
    environment,
    grpc_receiver,
    http_receiver,
    run_program,
)

# Registered before ours and so run after it, this tells for how long the end was held, without the time
# that a loaded machine takes to tear an interpreter down.
HELD = """
import atexit
ended = None
atexit.register(lambda: print("held", round(time.monotonic() - ended, 2), flush=True))
"""
SLACK = 0.5


def slow(seconds: float) -> Callable[[Any], tuple[int, bytes]]:
    def answer(_: object) -> tuple[int, bytes]:
        time.sleep(seconds)
        return 200, b""

    return answer


@contextlib.contextmanager
def endpoint(kind: str) -> Iterator[str]:
    """An endpoint of one kind."""
    if kind.startswith("refused"):
        with closed_port() as port:
            yield f"http://127.0.0.1:{port}" if kind == "refused" else f"127.0.0.1:{port}"
    elif kind.startswith("black hole"):
        with black_hole() as port:
            yield f"http://127.0.0.1:{port}" if kind == "black hole" else f"127.0.0.1:{port}"
    else:
        answers = {"slow": slow(5), "500": lambda _: (500, b""), "503": lambda _: (503, b"")}
        with http_receiver(answers[kind]) as received:
            yield received.url


def held(done: Program) -> float:
    """For how many seconds the end of a program was held."""
    return float(done.stdout.rpartition("held ")[2])


@pytest.mark.parametrize("spans", [10, 3000])
@pytest.mark.parametrize(
    "kind", ["refused", "refused grpc", "black hole", "black hole grpc", "slow", "500", "503"]
)
def test_the_end_is_held_for_a_bounded_time(kind: str, spans: int) -> None:
    """Exit code 0, at most the exit timeout and half a second, one short line and no traceback."""
    with endpoint(kind) as url:
        done = run_program(
            HELD
            + """
acrux.configure(endpoint=sys.argv[1], exit_timeout=1)
for _ in range(int(sys.argv[2])):
    find("Paris")
ended = time.monotonic()
""",
            url,
            str(spans),
        )
    assert done.returncode == 0
    assert held(done) <= 1 + SLACK
    endpoint_lines = [line for line in done.lines if "OTEL_BSP_MAX_QUEUE_SIZE" not in line]
    assert len(endpoint_lines) == 1
    assert endpoint_lines[0].startswith("cannot send ")
    assert len(endpoint_lines[0]) < 200
    assert len(done.lines) <= 2  # a queue that overflowed is a second kind of problem


def test_who_refuses_is_not_waited_for() -> None:
    """Nobody there: the end of the process is not the time to wait for him."""
    with endpoint("refused") as url:
        done = run_program(
            HELD + "acrux.configure(endpoint=sys.argv[1]); find('Paris'); ended = time.monotonic()", url
        )
    assert held(done) < 1


@pytest.mark.parametrize(
    ("arguments", "variables", "low", "high"),
    [
        ("", {}, 2.5, 3.0 + SLACK),
        ("exit_timeout=0", {}, 0.0, SLACK),
        ("", {"ACRUX_OTEL_EXIT_TIMEOUT": "0.5"}, 0.4, 0.5 + SLACK),
        ("exit_timeout=0", {"ACRUX_OTEL_EXIT_TIMEOUT": "3"}, 0.0, SLACK),
    ],
)
def test_the_exit_timeout_can_be_chosen(
    arguments: str, variables: dict[str, str], low: float, high: float
) -> None:
    """3 s by default; 0 does not wait; the argument outranks the variable."""
    with endpoint("black hole") as url:
        done = run_program(
            HELD + f"acrux.configure(endpoint=sys.argv[1], {arguments}); find('a'); ended = time.monotonic()",
            url,
            env=variables,
        )
    assert done.returncode == 0
    assert low <= held(done) <= high
    assert len(done.lines) == (0 if low == 0 else 1)


@pytest.mark.parametrize("receiver", [http_receiver, grpc_receiver])
def test_a_live_endpoint_gets_everything_before_the_end(receiver: Any) -> None:
    """Nothing that fits into the queue is lost, without a flush."""
    with receiver() as received:
        done = run_program(
            "acrux.configure(endpoint=sys.argv[1])\nfor _ in range(2000): find('Paris')", received.url
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(received.spans()) == 2000


def test_an_endpoint_that_is_busy_for_a_moment_gets_everything() -> None:
    """A 503 at the end is tried again within the time that there is."""
    answers = iter([(503, b""), (503, b"")])
    with http_receiver(lambda _: next(answers, (200, b""))) as received:
        done = run_program(
            "acrux.configure(endpoint=sys.argv[1], metrics=False); find('Paris')", received.url
        )
    assert done.returncode == 0
    assert len(received.spans()) == 1


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise KeyError('x')", "1/0"])
def test_other_endings_deliver_too(ending: str) -> None:
    """sys.exit and an uncaught exception keep their exit code."""
    with http_receiver() as received:
        done = run_program(f"acrux.configure(endpoint=sys.argv[1]); find('Paris'); {ending}", received.url)
    assert done.returncode == (3 if "exit" in ending else 1)
    assert received.names() == ["execute_tool find"]


def test_a_joined_provider_is_held_no_longer_by_us() -> None:
    """Its owner's shutdown waits for our queue at most the exit timeout, and we never shut it down."""
    with endpoint("black hole") as url:
        done = run_program(
            """
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider
            mine = TracerProvider(shutdown_on_exit=False)
            trace.set_tracer_provider(mine)
            acrux.configure(endpoint=sys.argv[1], exit_timeout=0.5)
            find("Paris")
            begun = time.monotonic()
            mine.shutdown()
            print("held", time.monotonic() - begun)
            """,
            url,
        )
    assert done.returncode == 0
    assert held(done) <= 0.5 + SLACK


def test_a_tool_call_is_not_slowed_by_a_dead_endpoint() -> None:
    """The median call beside a black hole and beside a discarding exporter are within noise."""
    with endpoint("black hole") as url:
        done = run_program(
            """
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
            from acrux_otel.settings import settings
            class Discard(SpanExporter):
                def export(self, spans): return SpanExportResult.SUCCESS
            discarding = TracerProvider(shutdown_on_exit=False)
            discarding.add_span_processor(BatchSpanProcessor(Discard()))
            dead = TracerProvider(shutdown_on_exit=False)
            acrux.configure(endpoint=sys.argv[1], tracer_provider=dead, exit_timeout=0, metrics=False)
            taken = {discarding: [], dead: []}
            for number in range(3000):
                provider = (dead, discarding)[number // 10 % 2]
                settings.tracer_provider = provider
                begun = time.perf_counter()
                find("Paris")
                taken[provider].append(time.perf_counter() - begun)
            import statistics
            print(statistics.median(taken[dead]), statistics.median(taken[discarding]), max(taken[dead]))
            """,
            url,
        )
    dead, discarding, longest = map(float, done.stdout.split())
    assert dead < discarding * 1.3
    assert longest < 1


@contextlib.contextmanager
def running(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has said "ready"."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


WAITS = """
find("Paris")
print("ready", flush=True)
time.sleep(30)
"""


def test_sigterm_delivers_when_asked_and_still_ends_by_the_signal() -> None:
    """With handle_sigterm=True what is queued arrives, and the parent sees the signal as before."""
    with http_receiver() as received:
        code = "acrux.configure(endpoint=sys.argv[1], handle_sigterm=True)" + WAITS
        with running(code, received.url) as process:
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == -signal.SIGTERM
    assert received.names() == ["execute_tool find"]


def test_sigterm_is_bounded_too() -> None:
    """A black hole holds the signal's end for the exit timeout, no longer."""
    with endpoint("black hole") as url:
        code = "acrux.configure(endpoint=sys.argv[1], handle_sigterm=True, exit_timeout=0.5)" + WAITS
        with running(code, url) as process:
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == -signal.SIGTERM
            assert time.monotonic() - begun < 0.5 + 2 * SLACK


def test_the_programs_own_handler_of_sigterm_stays() -> None:
    """Who handles SIGTERM already keeps it; atexit delivers."""
    with http_receiver() as received:
        code = (
            "import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
            "acrux.configure(endpoint=sys.argv[1], handle_sigterm=True)" + WAITS
        )
        with running(code, received.url) as process:
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 7
    assert received.names() == ["execute_tool find"]


def test_without_being_asked_signals_are_not_touched() -> None:
    """configure() alone installs no handler."""
    done = run_program(
        "import signal; acrux.configure(backend='none'); print(signal.getsignal(signal.SIGTERM))"
    )
    assert done.stdout.strip() == str(signal.SIG_DFL)


def test_a_handler_outside_of_the_main_thread_is_no_error() -> None:
    """Python allows handlers in the main thread only; configure() in another one works without."""
    done = run_program(
        """
        import threading
        thread = threading.Thread(target=acrux.configure, kwargs=dict(backend="none", handle_sigterm=True))
        thread.start(); thread.join()
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
