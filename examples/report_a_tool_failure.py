#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tool fails while its server answers 200: first nobody can see it, then the tool says so.

Three questions go to an agent with one tool, in its silent form and in the declared one; `--help` tells
the choices. Where OTEL_EXPORTER_OTLP_ENDPOINT is set, such as http://127.0.0.1:4318, the traces go there.
"""

from __future__ import annotations

import contextlib

import weather as demo

import acrux_otel as acrux

QUESTIONS = {
    "ok": "What is the weather in Kathmandu?",
    "not-found": "What is the weather in Atlantis Prime?",
    "ambiguous": "What is the weather in Hyderabad?",
}

open_meteo = demo.OpenMeteo()


@acrux.tool
def get_weather_brief(city: str) -> dict:
    """Tell today's weather in a city.

    Args:
        city: the city's name, such as Kathmandu.
    """
    places = open_meteo.places(city)
    if not places:
        return {"error": f"no city is called {city}"}
    return open_meteo.brief(places[0])


silent = get_weather_brief


@acrux.tool
def get_weather_brief(city: str) -> dict:
    """Tell today's weather in a city.

    Args:
        city: the city's name, such as Kathmandu.
    """
    places = open_meteo.places(city)
    if not places:
        return acrux.ToolResult.error("location_not_found", f"no city is called {city}")
    brief = open_meteo.brief(places[0])
    countries = list(dict.fromkeys(place["country"] for place in places))
    if len(countries) > 1:
        return acrux.ToolResult.warn("ambiguous_city", f"matches {', '.join(countries)}", result=brief)
    return brief


declared = get_weather_brief


def ask_all(form: str, model: demo.Model, record: demo.Record) -> None:
    """Put every question to the model with one form of the tool, then show what was recorded."""
    tool = {"silent": silent, "declared": declared}[form]
    rows, answers = [], []
    for tag, question in QUESTIONS.items():
        with acrux.run("weather-brief", tags=[form, tag]) as run:
            answer = demo.ask(question, model, tool)
        rows += record.rows(f"{form} {tag}", run.trace_id)
        answers.append(demo.Answer(question, answer, run.trace_id))
    demo.show(rows, answers)


def main() -> None:
    options = demo.parse(__doc__)
    demo.export_only_where_asked()
    acrux.configure(service_name="weather-brief")
    record = demo.Record()
    model = demo.OpenAIModel(options.model) if options.model else demo.ScriptedModel()
    with contextlib.ExitStack() as stack:
        if not options.live:
            open_meteo.ask_instead(stack.enter_context(demo.local_server()))
        for form in options.forms:
            ask_all(form, model, record)
    acrux.flush()


if __name__ == "__main__":
    with demo.one_line_problems():
        main()
