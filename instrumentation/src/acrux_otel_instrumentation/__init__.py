# SPDX-License-Identifier: Apache-2.0
"""Zero-config verdicts for the tool calls of agent frameworks, one module for each.

``opentelemetry-instrument python agent.py`` loads them all; so does :func:`instrument` from inside a program.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from acrux_otel_instrumentation.version import VERSION as __version__

if TYPE_CHECKING:
    from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor

__all__ = ["FRAMEWORKS", "__version__", "instrument", "uninstrument"]

# The name of the entry point -> where the instrumentor is.
FRAMEWORKS: Final[dict[str, str]] = {
    "acrux_mcp": "mcp:MCPInstrumentor",
    "acrux_langchain": "langchain:LangChainInstrumentor",
    "acrux_pydantic_ai": "pydantic_ai:PydanticAIInstrumentor",
    "acrux_anthropic": "anthropic:AnthropicInstrumentor",
    "acrux_openai_agents": "openai_agents:OpenAIAgentsInstrumentor",
    "acrux_fastmcp": "fastmcp:FastMCPInstrumentor",
    "acrux_google_adk": "google_adk:GoogleADKInstrumentor",
    "acrux_claude_agent_sdk": "claude_agent_sdk:ClaudeAgentSDKInstrumentor",
    "acrux_strands": "strands:StrandsInstrumentor",
    "acrux_crewai": "crewai:CrewAIInstrumentor",
    "acrux_llama_index": "llama_index:LlamaIndexInstrumentor",
    "acrux_smolagents": "smolagents:SmolagentsInstrumentor",
    "acrux_autogen": "autogen:AutogenInstrumentor",
    "acrux_agent_framework": "agent_framework:AgentFrameworkInstrumentor",
    "acrux_haystack": "haystack:HaystackInstrumentor",
}


def instrument(*names: str, **kwargs: Any) -> tuple[str, ...]:
    """Record the tool calls of every framework that is installed, imported already or not. Never raises.

    Args:
        names: entry point names of `FRAMEWORKS`; none means all. Those in the variable
            ``OTEL_PYTHON_DISABLED_INSTRUMENTATIONS`` are left out.
        kwargs: for the instrumentors, such as ``tracer_provider=``.

    Returns:
        The names of those that are instrumented now.

    Raises:
        ValueError: an unknown name.
    """
    disabled = [
        name.strip() for name in os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")
    ]
    done = []
    for name, instrumentor in _instrumentors(names):
        if name in disabled or "*" in disabled or not (names or instrumentor.installed()):
            continue
        if not instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.instrument(**kwargs)
        if instrumentor.is_instrumented_by_opentelemetry:
            done.append(name)
    return tuple(done)


def uninstrument(*names: str) -> None:
    """Put the frameworks' functions back.

    Args:
        names: as for :func:`instrument`.

    Raises:
        ValueError: an unknown name.
    """
    for _, instrumentor in _instrumentors(names):
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()


def _instrumentors(names: Iterable[str]) -> list[tuple[str, FrameworkInstrumentor]]:
    chosen = list(names) or list(FRAMEWORKS)
    unknown = [name for name in chosen if name not in FRAMEWORKS]
    if unknown:
        raise ValueError(f"no instrumentation is named {unknown[0]!r}; there are {', '.join(FRAMEWORKS)}")
    made = []
    for name in chosen:
        module, _, attribute = FRAMEWORKS[name].partition(":")
        made.append((name, getattr(import_module(f"{__name__}.{module}"), attribute)()))
    return made
