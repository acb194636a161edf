# SPDX-License-Identifier: Apache-2.0
"""The collector's rules.yaml and the SDK's table mean the same by the same class name."""

from __future__ import annotations

import builtins
import importlib
import inspect
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from acrux_otel.classify.evidence import code_of, dotted, retryable_status
from acrux_otel.classify.rules import ENDINGS, TABLE, rule_of
from acrux_otel.verdict import ErrorType

RULES: Final = yaml.safe_load(
    (Path(__file__).parents[2] / "collector-config/toolverdictprocessor/rules.yaml").read_text("utf-8")
)

# Modules whose exceptions tools raise; those that are not installed here are passed over.
MODULES: Final = (
    "builtins socket ssl asyncio http.client urllib.error concurrent.futures subprocess smtplib binascii",
    "multiprocessing.context json csv xml.etree.ElementTree xml.parsers.expat xml.sax yaml tomllib",
    "httpx httpx2 httpcore requests.exceptions aiohttp urllib3.exceptions grpc grpc.aio botocore.exceptions",
    "langgraph.errors pydantic_core msgspec jsonschema pydantic_ai.exceptions agents.exceptions",
)

# What the SDK reads off the exception itself, and a span does not carry.
BY_INSTANCE: Final = {"_by_errno", "_by_reason", "_grpc", "_aws", "_provider", "_spent", "<lambda>"}


def collectors() -> dict[str, tuple[str, str, bool | None]]:
    """Class name -> errorType, errorCode, retryable, as rules.yaml has them."""
    return {
        name: (row["errorType"], row.get("errorCode", ""), row.get("retryable"))
        for row in RULES["exceptions"]
        for name in row["types"]
    }


def endings() -> dict[str, str]:
    return {name: outcome for outcome, names in RULES["control_flow"].items() for name in names}


def find(name: str) -> type[BaseException] | None:
    """The class of a dotted name, where it is installed here."""
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module) if module else builtins, attribute, None)
    except ImportError:
        return None
    return found if inspect.isclass(found) and issubclass(found, BaseException) else None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(collectors()))
def test_a_class_means_the_same_on_both_sides(name: str) -> None:
    """A class that both tables know has the same errorType, errorCode and retryable in both."""
    kind = find(name)
    rule = TABLE.get(name) if kind is None else rule_of(kind)
    if rule is None:
        pytest.skip("the SDK learns of this class from a framework, or it is another language's")
    error_type, code, retryable = collectors()[name]
    if error_type in (ErrorType.HTTP_STATUS, ErrorType.PROVIDER_ERROR):
        assert error_type == rule.error_type  # the code is a number that the class does not hold
        return
    class_name = name.rpartition(".")[2]
    expected = (str(rule.error_type), rule.code or code_of(class_name), rule.retryable)
    assert (error_type, code or code_of(class_name), retryable) == expected


def raised() -> list[type[BaseException]]:
    found: dict[str, type[BaseException]] = {}
    for name in " ".join(MODULES).split():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for value in vars(module).values():
            if inspect.isclass(value) and issubclass(value, BaseException) and not issubclass(value, Warning):
                found[dotted(value)] = value
    return list(found.values())


@pytest.mark.parametrize("kind", raised(), ids=dotted)
def test_the_collector_knows_what_the_sdk_tells_by_class(kind: type[BaseException]) -> None:
    """What the SDK tells by class alone, of subclasses too, the collector tells by the class's own name."""
    name = dotted(kind).removeprefix("builtins.")
    ending = next((ENDINGS[dotted(base)] for base in kind.__mro__ if dotted(base) in ENDINGS), None)
    if ending is not None:
        assert endings().get(name) == str(ending)
        return
    rule = rule_of(kind)
    if rule is None or (rule.read is not None and rule.read.__name__ in BY_INSTANCE):
        return
    assert name in collectors()


def test_http_statuses_are_retryable_alike() -> None:
    """A status is retryable, final or unknown on both sides alike."""
    known: dict[str, Any] = RULES["http"]
    for status in range(400, 600):
        here: bool | None = None
        if status in known["retryable"]:
            here = True
        elif status in known["not_retryable"] or status < 500:
            here = False
        assert here == retryable_status(status), status
