# SPDX-License-Identifier: Apache-2.0
"""What is on the span of a tool call: ours beside the framework's own telemetry and other instrumentations.

Runs the same cases in one environment for each framework and instrumentation, and writes the table into
``instrumentation/README.md`` between its two markers.

    python tests/frameworks/compare.py                 # all, and write the table
    python tests/frameworks/compare.py --only langchain --print
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "instrumentation" / "README.md"
BEGIN, END = "<!-- compared by tests/frameworks/compare.py -->", "<!-- end of comparison -->"
CASES = {
    "ok": "ok",
    "error_dict": 'returns `{"error": …}`',
    "soft": "reports a failure",
    "raise": "raises",
    "timeout": "takes too long",
    "mismatch": "wrong arguments",
    "unknown": "unknown tool",
}
SUBJECTS = ("acrux", "own", "openinference", "traceloop", "official")
HEADINGS = ("acrux-otel", "the framework itself", "OpenInference", "Traceloop", "official GenAI")
# framework -> instrumentation -> its distribution
PACKAGES: dict[str, dict[str, str]] = {
    "mcp": {
        "openinference": "openinference-instrumentation-mcp",
        "traceloop": "opentelemetry-instrumentation-mcp",
    },
    "langchain": {
        "openinference": "openinference-instrumentation-langchain",
        "traceloop": "opentelemetry-instrumentation-langchain",
        "official": "opentelemetry-instrumentation-genai-langchain",
    },
    "pydantic_ai": {"openinference": "openinference-instrumentation-pydantic-ai"},
    "anthropic": {
        "openinference": "openinference-instrumentation-anthropic",
        "traceloop": "opentelemetry-instrumentation-anthropic",
        "official": "opentelemetry-instrumentation-genai-anthropic",
    },
    "openai_agents": {
        "openinference": "openinference-instrumentation-openai-agents",
        "traceloop": "opentelemetry-instrumentation-openai-agents",
        "official": "opentelemetry-instrumentation-genai-openai-agents",
    },
    "fastmcp": {},
    "google_adk": {"openinference": "openinference-instrumentation-google-adk"},
    "claude_agent_sdk": {"openinference": "openinference-instrumentation-claude-agent-sdk"},
    "strands": {"openinference": "openinference-instrumentation-strands-agents"},
    "crewai": {
        "openinference": "openinference-instrumentation-crewai",
        "traceloop": "opentelemetry-instrumentation-crewai",
    },
    "llama_index": {
        "openinference": "openinference-instrumentation-llama-index",
        "traceloop": "opentelemetry-instrumentation-llamaindex",
        "official": "opentelemetry-instrumentation-genai-llama-index",
    },
    "smolagents": {
        "openinference": "openinference-instrumentation-smolagents",
        "official": "opentelemetry-instrumentation-genai-smolagents",
    },
    "autogen": {},
    "agent_framework": {"openinference": "openinference-instrumentation-agent-framework"},
    "haystack": {
        "openinference": "openinference-instrumentation-haystack",
        "traceloop": "opentelemetry-instrumentation-haystack",
    },
}
# Those that rewrite the framework's own spans on their way out.
PROCESSORS = {
    "openinference-instrumentation-pydantic-ai": "pydantic_ai:OpenInferenceSpanProcessor",
    "openinference-instrumentation-strands-agents": "strands_agents:StrandsAgentsToOpenInferenceProcessor",
    "openinference-instrumentation-agent-framework": "agent_framework:AgentFrameworkToOpenInferenceProcessor",
}


# ---- in the environment of one framework and one instrumentation ----------------------------------------


def child(framework: str, subject: str) -> None:
    """Run the cases and print, as the last line, what each left on the tool's span."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    rewriting = PROCESSORS.get(PACKAGES[framework].get(subject, ""))
    if rewriting is not None:
        module, _, name = rewriting.partition(":")
        provider.add_span_processor(getattr(import_module(f"openinference.instrumentation.{module}"), name)())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    rig: Any = import_module(f"tests.frameworks.rigs.{framework}").RIG
    _switch_on(framework, subject, rig, provider)

    from tests.frameworks.rig import NOT_THERE

    kind = rig.kinds[-1]
    seen: dict[str, str] = {}
    for case in CASES:
        if rig.expects(case, kind) == NOT_THERE:
            seen[case] = ""
            continue
        exporter.clear()
        try:
            asyncio.run(rig.run(kind, case))
        except BaseException as error:
            seen[case] = f"crashes ({type(error).__name__})"
            continue
        tool = "no_such_tool" if case == "unknown" else "forecast"
        seen[case] = _read(exporter.get_finished_spans(), tool)
    print("\n" + json.dumps(seen))


def _switch_on(framework: str, subject: str, rig: Any, provider: Any) -> None:
    if framework == "pydantic_ai" and subject != "acrux":
        from pydantic_ai import Agent

        Agent.instrument_all(True)
    if subject == "own":
        return
    if subject == "acrux":
        import acrux_otel_instrumentation

        acrux_otel_instrumentation.instrument(rig.name, *rig.also)
        return
    if framework == "openai_agents":
        from agents import set_tracing_disabled

        set_tracing_disabled(False)
    wanted = PACKAGES[framework][subject]
    for entry in entry_points(group="opentelemetry_instrumentor"):
        if entry.dist is not None and entry.dist.name.lower().replace("_", "-") == wanted:
            entry.load()().instrument(tracer_provider=provider, skip_dep_check=True)


def _read(spans: Any, tool: str) -> str:
    """The status of the tool's span, and what it says of the error."""
    found = []
    for span in spans:
        attributes = dict(span.attributes or {})
        named = {attributes.get(key) for key in ("gen_ai.tool.name", "tool.name", "tool_name")}
        if span.name != "inside" and (tool in named or tool in span.name.replace(".", " ").split(" ")):
            found.append((span.status.status_code.name, attributes))
    if not found:
        return "no span"
    for _, attributes in found:
        outcome = attributes.get("acrux.tool.outcome")
        if outcome is not None:
            code = attributes.get("errorCode")
            return f"**{outcome}** `{attributes['errorType']}` `{code}`" if code else f"**{outcome}**"
    rank = {"ERROR": 2, "OK": 1, "UNSET": 0}
    status, attributes = max(found, key=lambda each: rank[each[0]])
    kind = attributes.get("error.type")
    return f"{status} `{kind}`" if status == "ERROR" and kind else status


# ---- all of them -----------------------------------------------------------------------------------------


def measure(framework: str, subject: str) -> dict[str, str] | None:
    """What ``subject`` records of each case; None where it has nothing for this framework."""
    from tests.frameworks.run_matrix import ENVIRONMENTS, CannotInstall, environment

    packages = ENVIRONMENTS[framework]["newest"]
    if subject not in ("acrux", "own"):
        if subject not in PACKAGES[framework]:
            return None
        packages = (*packages, PACKAGES[framework][subject])
    try:
        python = environment(framework, packages)
    except CannotInstall:
        return dict.fromkeys(CASES, "cannot be installed")
    done = subprocess.run(
        [str(python), __file__, "--child", framework, subject],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "instrumentation" / "src"))),
            "OPENAI_AGENTS_DISABLE_TRACING": "0" if subject not in ("acrux", "own") else "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode != 0 or not last.startswith("{"):
        reason = done.stderr.strip().rpartition("\n")[2][:60]
        print(f"{framework} {subject}: {reason}", file=sys.stderr)
        return dict.fromkeys(CASES, "crashes")
    return dict(json.loads(last))


def table(frameworks: list[str]) -> str:
    """The comparison as Markdown."""
    lines = [
        f"| framework | the tool | {' | '.join(HEADINGS)} |",
        "|" + "---|" * (len(HEADINGS) + 2),
    ]
    for framework in frameworks:
        from tests.frameworks.run_matrix import ENVIRONMENTS

        results = {subject: measure(framework, subject) for subject in SUBJECTS}
        ours = results["acrux"] or {}
        before = len(lines)
        versions = ", ".join(each.replace("==", " ") for each in ENVIRONMENTS[framework]["newest"])
        for case, label in CASES.items():
            if not ours.get(case):
                continue
            cells = [(results[subject] or {}).get(case, "–") for subject in SUBJECTS]
            lines.append(f"| {versions} | {label} | {' | '.join(cells)} |")
        print("\n".join(lines[before:]), flush=True)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare what is recorded of tool calls.")
    parser.add_argument("--child", nargs=2, metavar=("FRAMEWORK", "SUBJECT"))
    parser.add_argument("--only", nargs="+", choices=sorted(PACKAGES), default=list(PACKAGES))
    parser.add_argument("--print", action="store_true", help="leave the README as it is")
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    made = table([each for each in PACKAGES if each in options.only])
    if not options.print:
        text = README.read_text()
        before, _, rest = text.partition(BEGIN)
        README.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
