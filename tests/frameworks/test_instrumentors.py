# SPDX-License-Identifier: Apache-2.0
"""What every instrumentor does, on a library made for the test: when it patches, what it says and leaves."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import importlib.metadata
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import acrux_otel_instrumentation as instrumentations
import pytest
from acrux_otel_instrumentation import FRAMEWORKS
from acrux_otel_instrumentation import patching as patching_module
from acrux_otel_instrumentation.calls import Framework
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook, same_kind

from tests.conftest import Exported

LIBRARY = """
class Tool:
    name = "forecast"

    def run(self, city):
        if city == "Nowhere":
            raise LookupError("nowhere")
        return city

    @staticmethod
    def check(city):
        return city

async def call_tool(tool, city):
    return tool.run(city)
"""


@pytest.fixture
def fakelib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A library that nobody has imported yet, under a name of its own."""
    name = f"fakelib_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def fresh_warnings() -> None:
    patching_module._warned.clear()


def instrumentor_for(library: str, *more: Hook, requirement: str = "pytest >= 1") -> Any:
    framework = Framework("fake")

    def opening(tool: Any, city: Any, *args: Any, **kwargs: Any) -> Any:
        return framework.open(framework.definitions.named(tool.name), arguments={"city": city})

    hooks = (Hook(library, "Tool.run", framework.observed(opening)), *more)

    class FakeInstrumentor(FrameworkInstrumentor):
        instruments = (requirement,)

        def hooks(self) -> Iterable[Hook]:
            return hooks

    FakeInstrumentor.framework = framework
    return FakeInstrumentor()


def test_a26_names_that_were_imported_earlier_are_reached(fakelib: str, exported: Exported) -> None:
    """A26: a class imported before instrument() is recorded, once a call, and its method comes back after."""
    from importlib import import_module

    Tool = import_module(fakelib).Tool
    original = vars(Tool)["run"]
    instrumentor = instrumentor_for(fakelib)
    instrumentor.instrument()
    Tool().run("x")
    import_module(fakelib).Tool().run("y")
    assert len(exported.tools()) == 2
    instrumentor.uninstrument()
    Tool().run("z")
    assert len(exported.tools()) == 2
    assert vars(Tool)["run"] is original


def test_a26_a_library_that_is_imported_after_instrument_is_seen(fakelib: str, exported: Exported) -> None:
    """A26: instrument() imports nothing; the library is patched when the program imports it."""
    instrumentor = instrumentor_for(fakelib)
    instrumentor.instrument()
    assert fakelib not in sys.modules
    importlib.import_module(fakelib).Tool().run("x")
    assert exported.only.outcome == "ok"
    instrumentor.uninstrument()


def test_a_library_that_is_imported_after_uninstrument_is_left_alone(fakelib: str) -> None:
    """What was wanted once is not patched when it comes too late; wanted again, it is."""
    instrumentor = instrumentor_for(fakelib)
    instrumentor.instrument()
    instrumentor.uninstrument()
    Tool = importlib.import_module(fakelib).Tool
    original = vars(Tool)["run"]
    assert not hasattr(original, "__acrux_hook__")
    instrumentor.instrument()
    assert vars(Tool)["run"] is not original
    instrumentor.uninstrument()
    assert vars(Tool)["run"] is original


def test_what_somebody_else_wrapped_on_top_stays_and_we_are_silent(fakelib: str, exported: Exported) -> None:
    """After uninstrument() the other's wrapper is still there, and nothing of ours is recorded below it."""
    Tool = importlib.import_module(fakelib).Tool
    instrumentor = instrumentor_for(fakelib)
    instrumentor.instrument()
    ours = vars(Tool)["run"]

    def theirs(self: Any, city: Any) -> Any:
        return ours(self, city)

    Tool.run = theirs
    instrumentor.uninstrument()
    assert vars(Tool)["run"] is theirs
    Tool().run("x")
    assert exported.tools() == []


def test_a_static_method_stays_one(fakelib: str) -> None:
    """The kind of what is patched is kept, and it comes back."""
    seen: list[Any] = []

    def patch(original: Any) -> Any:
        def check(city: Any) -> Any:
            seen.append(city)
            return original(city)

        return check

    Tool = importlib.import_module(fakelib).Tool
    before = vars(Tool)["check"]
    instrumentor = instrumentor_for(fakelib, Hook(fakelib, "Tool.check", patch))
    instrumentor.instrument()
    assert (Tool.check("x"), Tool().check("y"), seen) == ("x", "y", ["x", "y"])
    instrumentor.uninstrument()
    assert vars(Tool)["check"] is before


def test_a_hook_that_is_gone_is_one_warning_and_the_rest_is_patched(
    fakelib: str, exported: Exported, caplog: pytest.LogCaptureFixture
) -> None:
    """A supported version that lacks a function says so once; an optional one says nothing."""
    instrumentor = instrumentor_for(
        fakelib,
        Hook(fakelib, "Tool.gone", lambda original: original),
        Hook(fakelib, "Tool.never", lambda original: original, optional=True),
    )
    instrumentor.instrument()
    importlib.import_module(fakelib).Tool().run("x")
    instrumentor.uninstrument()
    instrumentor.instrument()
    instrumentor.uninstrument()
    assert exported.only.outcome == "ok"
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "Tool.gone" in record.getMessage()


def test_a_patch_that_breaks_does_not_break_the_import(
    fakelib: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What goes wrong while a library is being imported is our problem, told once."""

    def broken(original: Any) -> Any:
        raise RuntimeError("oops")

    instrumentor = instrumentor_for(fakelib, Hook(fakelib, "Tool.check", broken))
    instrumentor.instrument()
    assert importlib.import_module(fakelib).Tool().run("x") == "x"
    instrumentor.uninstrument()
    assert [each.getMessage() for each in caplog.records if "RuntimeError" in each.getMessage()]


def test_a_second_instrument_is_one_warning_that_names_the_package(
    fakelib: str, exported: Exported, caplog: pytest.LogCaptureFixture
) -> None:
    """It changes nothing: a call is recorded once."""
    instrumentor = instrumentor_for(fakelib)
    instrumentor.instrument()
    instrumentor.instrument()
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert record.getMessage() == "pytest is instrumented already; this instrument() changes nothing"
    importlib.import_module(fakelib).Tool().run("x")
    assert len(exported.tools()) == 1
    instrumentor.uninstrument()


@pytest.mark.parametrize("loaded", [False, True], ids=["by hand", "by opentelemetry-instrument"])
def test_an_unsupported_version_is_one_warning(
    loaded: bool, fakelib: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning names the package, what was found and what is supported; nothing is patched."""
    instrumentor = instrumentor_for(fakelib, requirement="pytest > 900, < 901")
    for _ in range(2):
        instrumentor.instrument(**({"skip_dep_check": True} if loaded else {}))
    found = importlib.metadata.version("pytest")
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    for part in ("pytest", found, ">900", "<901"):
        assert part in record.getMessage()
    assert not instrumentor.is_instrumented_by_opentelemetry


def test_a_missing_framework_is_a_warning_only_where_it_was_asked_for(
    fakelib: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Loaded with all the others it is silent: most frameworks are not installed."""
    instrumentor = instrumentor_for(fakelib, requirement="no-such-package >= 1")
    instrumentor.instrument(skip_dep_check=True)
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []
    instrumentor.instrument()
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "no-such-package is not installed" in record.getMessage()


def test_arguments_of_an_unknown_shape_are_recorded_as_they_can_be(
    fakelib: str, exported: Exported, caplog: pytest.LogCaptureFixture
) -> None:
    """A hook that does not understand its arguments records the tool's name, with one debug line."""
    framework = Framework("fake")
    framework.on = True

    def opening(tool: Any, city: Any) -> Any:
        raise KeyError("city")

    Tool = importlib.import_module(fakelib).Tool
    run = framework.observed(opening)(Tool.run)
    with caplog.at_level(logging.DEBUG, logger="acrux_otel"):
        assert run(Tool(), "x") == "x"
        with pytest.raises(LookupError):
            run(Tool(), "Nowhere")
    assert [each.outcome for each in exported.tools()] == ["ok", "error"]
    assert [each.levelname for each in caplog.records if "unknown shape" in each.getMessage()] == [
        "DEBUG"
    ] * 2


def instrumentor_named(name: str) -> Any:
    module, _, attribute = FRAMEWORKS[name].partition(":")
    return getattr(importlib.import_module(f"acrux_otel_instrumentation.{module}"), attribute)()


@pytest.mark.parametrize("name", FRAMEWORKS)
async def test_a_hook_hands_on_whatever_it_does_not_understand(
    name: str, exported: Exported, caplog: pytest.LogCaptureFixture
) -> None:
    """A later version may call with more, less or other things; it gets what its own function returns."""

    def original(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    async def aoriginal(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    async def stream(*args: Any, **kwargs: Any) -> Any:
        yield args, kwargs

    @contextlib.contextmanager
    def manager(*args: Any, **kwargs: Any) -> Any:
        yield args, kwargs

    async def got(function: Any, kind: Any, args: Any, kwargs: Any) -> Any:
        if kind is stream:
            (made,) = [each async for each in function(*args, **kwargs)]
            return made
        if kind is manager:
            with function(*args, **kwargs) as made:
                return made
        return await function(*args, **kwargs) if kind is aoriginal else function(*args, **kwargs)

    instrumentor = instrumentor_named(name)
    instrumentor.framework.on = True
    try:
        for hook in instrumentor.hooks():
            plain = manager if hook.path == "trace_tool_span" else original
            kinds = [kind for kind in (plain, aoriginal, stream) if same_kind(kind, hook.patch(kind))]
            assert kinds, hook.path
            for kind in kinds:
                for args in ((object(),), (None,) * 3, tuple(object() for _ in range(7))):
                    for more in ({}, {"more": 1}):
                        answer = await got(hook.patch(kind), kind, args, more)
                        assert answer == (args, more), (hook.path, kind)
    finally:
        instrumentor.framework.on = False


def test_a_callback_that_breaks_changes_nothing(exported: Exported) -> None:
    """What goes wrong while a result or an exception is read does not reach the framework."""
    framework = Framework("fake")
    framework.on = True

    def opening(*args: Any) -> Any:
        return framework.open(framework.definitions.named("forecast"))

    def broken(*args: Any) -> Any:
        raise RuntimeError("oops")

    async def fails() -> None:
        raise LookupError("nowhere")

    assert framework.observed(opening, broken, broken)(lambda: 3)() == 3
    with pytest.raises(LookupError):
        asyncio.run(framework.observed(opening, broken, broken)(fails)())
    assert [each.outcome for each in exported.tools()] == ["ok", "error"]


def test_the_entry_points_are_the_frameworks() -> None:
    """What opentelemetry-instrument finds is what instrument() knows, and each can be loaded."""
    found = {
        each.name: each.value.partition(".")[2]
        for each in importlib.metadata.entry_points(group="opentelemetry_instrumentor")
        if each.value.startswith("acrux_otel_instrumentation.")
    }
    assert found == FRAMEWORKS
    for name in FRAMEWORKS:
        instrumentations.uninstrument(name)


def test_what_is_used_of_acrux_otel_is_public() -> None:
    """The distribution needs the public face and the seam, so that the core may change below them."""
    folder = Path(instrumentations.__file__).parent
    used = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    ours = {name for name in used if name and name.partition(".")[0] == "acrux_otel"}
    assert ours == {"acrux_otel", "acrux_otel.seam"}


def test_a_name_that_is_no_framework_is_refused() -> None:
    """A typing error says what there is."""
    with pytest.raises(ValueError, match=r"'langchian'.*acrux_langchain"):
        instrumentations.instrument("langchian")


def test_a_tracer_provider_of_ones_own(exported: Exported) -> None:
    """instrument(tracer_provider=) sends the spans there."""
    pytest.importorskip("mcp")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    from tests.frameworks import tools
    from tests.frameworks.rigs.mcp import Server, connected

    other = Exported()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(other))
    instrumentations.instrument("acrux_mcp", tracer_provider=provider)
    try:

        async def one() -> None:
            server = Server("weather")
            server.add_tool(tools.aforecast, name="forecast")
            async with connected(server) as client:
                await client.call_tool("forecast", {"city": "Rome"})

        asyncio.run(one())
    finally:
        instrumentations.uninstrument("acrux_mcp")
        provider.shutdown()
    assert [each.outcome for each in other.tools()] == ["ok"]
    assert exported.tools() == []
