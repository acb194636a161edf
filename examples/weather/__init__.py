# SPDX-License-Identifier: Apache-2.0
"""What the weather example needs beside its tool: places and weather, a model, an agent loop, a table.

Uses the OpenTelemetry API and, of acrux-otel, only what `import acrux_otel` gives.
"""

from weather.agent import ask
from weather.client import OpenMeteo
from weather.command import export_only_where_asked, one_line_problems, parse
from weather.model import Model, OpenAIModel, ScriptedModel
from weather.problem import Problem
from weather.server import local_server
from weather.table import Answer, Record, show

__all__ = [
    "Answer",
    "Model",
    "OpenAIModel",
    "OpenMeteo",
    "Problem",
    "Record",
    "ScriptedModel",
    "ask",
    "export_only_where_asked",
    "local_server",
    "one_line_problems",
    "parse",
    "show",
]
