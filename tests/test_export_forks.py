# SPDX-License-Identifier: Apache-2.0
"""Forks, workers and threads: nothing lost, nothing sent twice, and each process counts for itself."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from otlp_receivers import Received, black_hole, grpc_receiver, http_receiver, run_program

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def cities(received: Received) -> Counter[str]:
    """Which call arrived how often, by the tool's argument."""
    found: Counter[str] = Counter()
    for span in received.spans():
        told = {pair.key: pair.value.string_value for pair in span.attributes}
        found[told["gen_ai.tool.call.arguments"]] += 1
    return found


def expected(*names: str) -> dict[str, int]:
    return {f'{{"city":"{name}"}}': 1 for name in names}


SETUP = "acrux.configure(endpoint=sys.argv[1], capture='full')\n"


def test_a_forked_child_that_flushes_loses_nothing() -> None:
    """os.fork and os._exit: flush() in the child is the documented hook; the parent's spans are its own."""
    with http_receiver() as received:
        done = run_program(
            SETUP
            + """
import os
find("before")
child = os.fork()
if child == 0:
    find("child")
    os._exit(0 if acrux.flush(5) else 1)
find("after")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
            received.url,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert cities(received) == expected("before", "child", "after")


def test_a_prefork_server_loses_nothing() -> None:
    """gunicorn-like: configured in the master after it has sent something, workers end by sys.exit."""
    with http_receiver() as received:
        done = run_program(
            SETUP
            + """
import os
find("master")
acrux.flush(5)
workers = []
for number in range(3):
    worker = os.fork()
    if worker == 0:
        find(f"worker {number}")
        sys.exit(0)
    workers.append(worker)
codes = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
sys.exit(max(codes))
""",
            received.url,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert cities(received) == expected("master", "worker 0", "worker 1", "worker 2")


WORKERS = """
import multiprocessing, os, sys, time
import acrux_otel as acrux

@acrux.tool
def find(city: str) -> dict:
    return {"city": city}

acrux.configure(endpoint=sys.argv[1] if len(sys.argv) > 1 else os.environ["HERE"], capture="full")

def work(number):
    find(f"worker {number}")

if __name__ == "__main__":
    context = multiprocessing.get_context(os.environ["METHOD"])
    find("parent")
    processes = [context.Process(target=work, args=(number,)) for number in range(2)]
    for process in processes: process.start()
    for process in processes: process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    with context.Pool(2) as pool:
        pool.map(work, range(10, 16))
        pool.close()
        pool.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_workers_lose_nothing(method: str, tmp_path: Path) -> None:
    """They end by os._exit, which runs no atexit: configure() has registered what they do run."""
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    with http_receiver() as received:
        done = run_program(
            "", command=[sys.executable, str(script)], env={"METHOD": method, "HERE": received.url}
        )
    assert (done.returncode, done.stderr) == (0, "")
    numbers = [*range(2), *range(10, 16)]
    assert cities(received) == expected("parent", *(f"worker {number}" for number in numbers))


def test_threads_lose_nothing() -> None:
    """ThreadPoolExecutor: every call of every thread arrives once."""
    with http_receiver() as received:
        done = run_program(
            SETUP
            + """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    list(pool.map(find, [str(number) for number in range(1000)]))
""",
            received.url,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert cities(received) == expected(*map(str, range(1000)))


def test_each_worker_counts_for_itself() -> None:
    """A child's metrics begin at zero and carry an instance id of their own, as do its spans."""
    with http_receiver() as received:
        done = run_program(
            SETUP
            + """
import os
from opentelemetry import metrics
own = metrics.get_meter("program").create_counter("own")
for _ in range(5): find("Paris")
own.add(5)
child = os.fork()
if child == 0:
    find("Paris"); find("Atlantis")
    sys.exit(0)
os.waitpid(child, 0)
""",
            received.url,
        )
    assert (done.returncode, done.stderr) == (0, "")
    calls: dict[str, int] = {}
    measured: dict[str, int] = {}
    for resource, metric in received.metrics():
        instance = resource["service.instance.id"]
        if metric.name == "acrux.tool.calls":
            calls[instance] = sum(point.as_int for point in metric.sum.data_points)
        elif metric.name == "gen_ai.execute_tool.duration":
            measured[instance] = sum(point.count for point in metric.histogram.data_points)
    assert sorted(calls.values()) == sorted(measured.values()) == [2, 5]
    spans = Counter(resource["service.instance.id"] for resource, _ in received.spans_with_resources())
    assert dict(spans) == calls


def test_a_fork_while_export_waits_leaves_a_child_that_works() -> None:
    """Locks and threads held at the fork are the parent's: the child's calls and flush do not hang."""
    with black_hole() as port:
        done = run_program(
            """
            import os
            acrux.configure(endpoint=sys.argv[1], exit_timeout=0.3)
            find("Paris")
            acrux.flush(0.2)  # leaves threads behind that hold what they hold
            child = os.fork()
            if child == 0:
                find("Paris")
                begun = time.monotonic()
                acrux.flush(0.3)
                assert time.monotonic() - begun < 1
                sys.exit(0)
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """,
            f"http://127.0.0.1:{port}",
            timeout=20,
        )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("used", [False, True])
def test_grpc_in_workers(used: bool) -> None:
    """A channel is made at the first export, so workers of a master that sent nothing have their own.

    Where the master did send, gRPC itself needs GRPC_ENABLE_FORK_SUPPORT, which docs/backends.md says.
    """
    with grpc_receiver() as received:
        done = run_program(
            SETUP
            + """
import os
if sys.argv[2] == "True":
    find("master")
    assert acrux.flush(5)
child = os.fork()
if child == 0:
    find("worker")
    os._exit(0 if acrux.flush(5) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
            received.url,
            str(used),
            env={"GRPC_ENABLE_FORK_SUPPORT": "1"} if used else {},
        )
    assert done.returncode == 0
    assert cities(received) == expected("worker", *(["master"] if used else []))
