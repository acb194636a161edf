# SPDX-License-Identifier: Apache-2.0
"""Shows what was recorded: one row for each tool span, coloured on a terminal, plain in a pipe."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TextIO

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

__all__ = ["Answer", "Record", "Row", "colours_on", "show"]

Paint = Callable[[str, int], str]

_ANSI: Final = {"red": "31", "amber": "33", "green": "32", "error": "31", "warning": "33", "ok": "32"}


class Row(NamedTuple):
    """One tool call as its span tells it; the fields are the table's columns."""

    run: str
    trace: str
    tool: str = "-"
    outcome: str = "-"
    errorType: str = "-"
    errorCode: str = "-"
    errorDetail: str = "-"


class Answer(NamedTuple):
    """What the model said to a question, and the trace that tells how it came to it."""

    question: str
    answer: str
    trace_id: str | None


class Record:
    """Keeps every span that ends in this process, beside whatever exports them."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        provider = trace.get_tracer_provider()
        if isinstance(provider, TracerProvider):
            provider.add_span_processor(SimpleSpanProcessor(self._spans))

    def rows(self, run: str, trace_id: str | None) -> list[Row]:
        """The tool calls of one trace; a run that recorded no call is one row without a tool."""
        spans = [
            span
            for span in self._spans.get_finished_spans()
            if span.context and trace.format_trace_id(span.context.trace_id) == trace_id
        ]
        colour = _colour(spans)
        return [
            Row(
                run,
                colour,
                str(told["gen_ai.tool.name"]),
                str(told.get("acrux.tool.outcome", "-")),
                *(str(told.get(key, "-")) for key in ("errorType", "errorCode", "errorDetail")),
            )
            for span in spans
            if (told := span.attributes or {}).get("gen_ai.operation.name") == "execute_tool"
        ] or [Row(run, colour)]


def _colour(spans: Sequence[ReadableSpan]) -> str:
    """Red if any span is an error, amber if none is but one carries a warning, else green."""
    if not spans:
        return "none"
    if any(span.status.status_code is trace.StatusCode.ERROR for span in spans):
        return "red"
    return "amber" if any("warning.type" in (span.attributes or {}) for span in spans) else "green"


def colours_on(stream: TextIO) -> bool:
    """Whether colour codes may be written: to a terminal that knows them, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(rows: Sequence[Row], answers: Iterable[Answer], stream: TextIO | None = None) -> None:
    """Print the calls, then the answers."""
    stream = stream or sys.stdout
    cells = [Row(*map(_printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(Row._fields, *cells, strict=True)]
    paint = _painted if colours_on(stream) else _plain
    if stream.isatty() and sum(widths) + 2 * len(widths) > shutil.get_terminal_size().columns:
        lines = _blocks(cells, paint)
    else:
        lines = _table(cells, widths, paint)
    for question, answer, trace_id in answers:
        lines += [
            _printable(question),
            f"  {_printable(answer)}",
            f"  trace {trace_id or 'not recorded'}",
            "",
        ]
    print("\n".join(lines), file=stream, flush=True)


def _table(rows: Iterable[Row], widths: Sequence[int], paint: Paint) -> list[str]:
    lines = [map(_plain, Row._fields, widths), map(_plain, ("-" * width for width in widths), widths)]
    lines += [map(paint, row, widths) for row in rows]
    return [*("  ".join(line).rstrip() for line in lines), ""]


def _blocks(rows: Iterable[Row], paint: Paint) -> list[str]:
    """For a terminal that is too narrow for the table: a line for each cell."""
    label = max(map(len, Row._fields))
    lines = []
    for row in rows:
        lines += [
            f"{field.ljust(label)}  {paint(cell, 0)}" for field, cell in zip(Row._fields, row, strict=True)
        ]
        lines.append("")
    return lines


def _plain(cell: str, width: int) -> str:
    return cell.ljust(width)


def _painted(cell: str, width: int) -> str:
    code = _ANSI.get(cell)
    return f"\x1b[{code}m{cell}\x1b[0m{' ' * (width - len(cell))}" if code else _plain(cell, width)


def _printable(text: str) -> str:
    """Without the control characters that a service could send to a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
