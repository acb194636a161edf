# SPDX-License-Identifier: Apache-2.0
"""Write pieces/normalise.yaml, the transform processor's statements, from the processor's own rules.yaml.

Both normalise by one table, so a class or a number is added in one place. Needs PyYAML.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["main", "render"]

HERE: Final = Path(__file__).resolve().parent
RULES: Final = HERE / "toolverdictprocessor" / "rules.yaml"
TARGET: Final = HERE / "pieces" / "normalise.yaml"

HEADER: Final = """\
# SPDX-License-Identifier: Apache-2.0
# Written by write_normalise.py from toolverdictprocessor/rules.yaml: change that and run this again.
# The body of a transform processor: one vocabulary for the tool spans of OpenInference, MCP, Traceloop and
# the GenAI conventions. A span that has acrux.tool.outcome is left as it is.
#
# A verdict travels through span.cache as three words, "errorType errorCode retryable". "-" as the code stands
# for the class name, as retryable for not known; "status" means that the HTTP status tells.
"""

MARKED: Final = (
    'span.attributes["acrux.tool.outcome"] == nil and span.attributes["acrux.tool.normalised_from"] != nil'
)
SCRATCH: Final = ("class", "message", "escaped", "failed", "declared", "text")
FOUND: Final = 'span.cache["verdict"]'
OPEN: Final = f"{FOUND} == nil"
STATUS: Final = 'span.cache["status"]'
TOOL: Final = 'span.cache["tool"]'
NAME_BYTES: Final = 256  # toolverdict's maxName
CONTENT_BYTES: Final = 256 << 10  # its max_content_bytes, as it is by default
ITEMS: Final = 8  # of a list that are looked at for the text of a result
PROTOCOL: Final = 'span.cache["protocol"]'
ERROR_TYPES: Final = "transport|http_status|tool_declared|schema_mismatch|transform|provider_error"


def quoted(text: str) -> str:
    """Text as an OTTL string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def attribute(name: str) -> str:
    return f"span.attributes[{quoted(name)}]"


def inside(value: str, path: str) -> str:
    """A dotted path of rules.yaml below a parsed value; `#` alone asks for the list, `#(…)` for its first."""
    keys = []
    for key in re.findall(r"#\([^)]*\)|[^.]+", path):
        if key.startswith("#("):
            keys.append("[0]")
        elif key != "#":
            keys.append(f"[{quoted(key)}]")
    return value + "".join(keys)


def lacks(name: str) -> str:
    """The condition that an attribute is no text, or an empty one."""
    return f'({attribute(name)} == nil or not IsString({attribute(name)}) or {attribute(name)} == "")'


def one_of(subject: str, names: Iterable[str], before: str = "") -> str:
    """The condition that the subject is one of the names, each taken literally."""
    words = "|".join(re.escape(name).replace("\\-", "-") for name in sorted(names))
    return f"IsMatch({subject}, {quoted(f'^{before}(?:{words})$')})"


def put(target: str, value: str, *conditions: str) -> str:
    """One statement."""
    where = " and ".join(condition for condition in conditions if condition)
    return f"set({target}, {value})" + (f" where {where}" if where else "")


def word(retryable: object) -> str:
    return "-" if retryable is None else str(retryable).lower()


def verdict(row: dict[str, Any]) -> str:
    code = row.get("errorCode") or "-"
    return quoted(f"{row['errorType']} {code} {word(row.get('retryable'))}")


def of_status(error_type: str = "http_status", status: str = STATUS) -> str:
    return f'Concat(["{error_type} http_", String({status}), " status"], "")'


def identity(rules: dict[str, Any]) -> Iterator[str]:
    """Which spans are tool calls, and the names that the rest of the pipeline groups by."""
    mark = attribute("acrux.tool.normalised_from")
    for source in rules["sources"]:
        is_it = f"{attribute(source['attribute'])} == {quoted(source['value'])}"
        yield put(mark, quoted(source["name"]), f"{mark} == nil", is_it)
    yield put(
        attribute("gen_ai.operation.name"), '"execute_tool"', f"{attribute('gen_ai.operation.name')} == nil"
    )
    for source in rules["sources"]:
        from_it = f"{mark} == {quoted(source['name'])}"
        lacks_name = f"{attribute('gen_ai.tool.name')} == nil and {TOOL} == nil"
        for name in source["tool_name"]:
            is_name = f'IsString({attribute(name)}) and {attribute(name)} != ""'
            yield put(TOOL, attribute(name), lacks_name, from_it, is_name)
        name = "span.name"
        for prefix in source.get("trim_prefix", ()):
            name = f"TrimPrefix({name}, {quoted(prefix)})"
        for suffix in source.get("trim_suffix", ()):
            name = f"TrimSuffix({name}, {quoted(suffix)})"
        yield put(TOOL, name, lacks_name, from_it)
        for field in source["call_id"]:
            lacks_id = f"{attribute('gen_ai.tool.call.id')} == nil"
            value = attribute(field["attribute"])
            if path := field.get("path"):
                opens = f'IsString({value}) and HasPrefix({value}, "{{")'
                yield 'delete_key(span.cache, "content")'
                yield put('span.cache["content"]', f"ParseJSON({value})", lacks_id, from_it, opens)
                value = inside('span.cache["content"]', path)
            is_id = f'IsString({value}) and {value} != "" and Len({value}) <= {NAME_BYTES}'
            yield put(attribute("gen_ai.tool.call.id"), value, lacks_id, from_it, is_id)
    yield f"truncate_all(span.cache, {NAME_BYTES})"
    yield put(attribute("gen_ai.tool.name"), TOOL, f'{TOOL} != nil and {TOOL} != ""')


EVENT: Final = [
    'set(span.attributes["acrux.tmp.class"], "")',
    'set(span.attributes["acrux.tmp.class"], spanevent.attributes["exception.type"])'
    ' where IsString(spanevent.attributes["exception.type"])',
    'set(span.attributes["acrux.tmp.message"], "")',
    'set(span.attributes["acrux.tmp.message"], spanevent.attributes["exception.message"])'
    ' where IsString(spanevent.attributes["exception.message"])',
    'set(span.attributes["acrux.tmp.escaped"], false)',
    'set(span.attributes["acrux.tmp.escaped"], true) where spanevent.attributes["exception.escaped"] == true'
    ' or IsMatch(spanevent.attributes["exception.escaped"], "(?i)^true$")',
]


def failed_or_not(rules: dict[str, Any]) -> Iterator[str]:
    """Control flow, success and warnings get their outcome; a failure is marked for the next group."""
    outcome = attribute("acrux.tool.outcome")
    kind, value = 'span.cache["class"]', 'span.cache["value"]'
    not_ok = "span.status.code != STATUS_CODE_OK"
    yield put(kind, 'span.attributes["acrux.tmp.class"]', 'span.attributes["acrux.tmp.class"] != nil')
    yield f'replace_pattern({kind}, "^\\\\*?(builtins\\\\.)?", "") where {kind} != nil'
    yield put(
        value,
        attribute("error.type"),
        f"IsString({attribute('error.type')})",
        f'{attribute("error.type")} != ""',
    )
    for name, types in rules["control_flow"].items():
        yield put(outcome, quoted(name), f"{outcome} == nil", not_ok, one_of(kind, types))
    for name, types in rules["control_flow"].items():
        yield put(outcome, quoted(name), f"{outcome} == nil", one_of(value, types, r"\*?(?:builtins\.)?"))
    failed = 'span.attributes["acrux.tmp.failed"]'
    undecided = f"{outcome} == nil and {failed} == nil"
    yield put(failed, "true", undecided, "span.status.code == STATUS_CODE_ERROR")
    yield put(failed, "true", undecided, f"{value} != nil")
    yield put(failed, "true", undecided, not_ok, 'span.attributes["acrux.tmp.escaped"] == true')
    for row in rules["failed"]:
        says = f"{attribute(row['attribute'])} == {quoted(row['value'])}"
        yield put('span.attributes["acrux.tmp.declared"]', "true", f"{outcome} == nil", says)
    yield from results(rules, undecided)
    yield put(failed, "true", undecided, 'span.attributes["acrux.tmp.declared"] == true')
    warned = f'IsString({attribute("warning.type")}) and {attribute("warning.type")} != ""'
    yield put(outcome, '"warning"', undecided, warned)
    yield put(failed, "true", undecided, f'IsMatch({attribute("errorType")}, "^(?:{ERROR_TYPES})$")')
    for name in rules["http_status"]:
        number = attribute(name)
        yield put(
            failed, "true", undecided, "span.status.code == STATUS_CODE_UNSET",
            f"IsInt({number}) and {number} >= 400 and {number} <= 599",
        )  # fmt: skip
    yield put(outcome, '"ok"', undecided)
    no_type = f'not IsMatch({attribute("errorType")}, "^(?:{ERROR_TYPES})$")'
    is_warning = f'{outcome} == "warning"'
    yield put(
        attribute("errorType"),
        '"tool_declared"',
        is_warning,
        f"({attribute('errorType')} == nil or {no_type})",
    )
    no_code = lacks("errorCode")
    yield put(attribute("errorCode"), attribute("warning.type"), is_warning, no_code)
    yield from slug(attribute("errorCode"), is_warning)
    no_detail = lacks("errorDetail")
    said = f"IsString({attribute('warning.message')})"
    yield put(attribute("errorDetail"), attribute("warning.message"), is_warning, no_detail, said)
    yield put(attribute("errorDetail"), attribute("errorCode"), is_warning, no_detail)
    yield put(outcome, '"error"', f"{failed} == true")


def results(rules: dict[str, Any], undecided: str) -> Iterator[str]:
    """What a captured result says of itself, in a framework's own field."""
    declared = 'span.attributes["acrux.tmp.declared"]'
    names = dict.fromkeys(name for row in rules["results"] for name in row["attributes"])
    for name in names:
        value = attribute(name)
        content = 'span.cache["content"]'
        yield 'delete_key(span.cache, "content")'
        yield put(
            content, f"ParseJSON({value})", undecided, f"{declared} == nil",
            f'IsString({value}) and HasPrefix({value}, "{{") and Len({value}) <= {CONTENT_BYTES}',
            f'IsMatch({value}, "rror")',
        )  # fmt: skip
        for row in rules["results"]:
            if name not in row["attributes"]:
                continue
            wants = [
                f"{inside(content, path)} == {'true' if want is True else quoted(want)}"
                for path, want in row["is"].items()
            ]
            wants += [
                f"IsList({inside(content, path)})"
                if path.endswith("#")
                else f"{inside(content, path)} != nil"
                for path in row["has"]
            ]
            there = [f"{content} != nil", f"{declared} == nil", *wants]
            yield from text_of(content, row["text"], there)
            yield put(declared, "true", *there)


def text_of(content: str, path: str, there: list[str]) -> Iterator[str]:
    """The text for a person: a field, or a field of the first of a list's items that is of a kind."""
    target = 'span.attributes["acrux.tmp.text"]'
    chosen = re.fullmatch(r'([^#]+)\.#\((\w+)=="(\w+)"\)\.(\w+)', path)
    if chosen is None:
        text = inside(content, path)
        yield put(target, text, *there, f"IsString({text})")
        return
    items, kind, wanted, field = inside(content, chosen[1]), chosen[2], chosen[3], chosen[4]
    for place in range(ITEMS):
        item = f"{items}[{place}]"
        is_it = f'Len({items}) > {place} and {item}["{kind}"] == {quoted(wanted)}'
        yield put(
            target, f'{item}["{field}"]', *there, f"{target} == nil", is_it, f'IsString({item}["{field}"])'
        )


def slug(target: str, *conditions: str) -> Iterator[str]:
    """Make any text an errorCode, as the SDK does."""
    where = " and ".join(conditions)
    is_one = f'IsMatch({target}, "^[a-z0-9_]{{1,64}}$")'
    yield f'set(span.cache["slug"], false) where {where}'
    yield f'set(span.cache["slug"], true) where {where} and {is_one}'
    where += ' and span.cache["slug"] == false'
    for pattern, new in (
        ("([a-z0-9])([A-Z])", "$${1}_$${2}"),
        ("([A-Z]+)([A-Z][a-z])", "$${1}_$${2}"),
    ):
        yield f"replace_pattern({target}, {quoted(pattern)}, {quoted(new)}) where {where}"
    yield f'set({target}, ConvertCase({target}, "lower")) where {where}'
    for pattern, new in (("[^a-z0-9]+", "_"), ("^_+|_+$", ""), ("^(.{64}).*$", "$${1}"), ("_+$", "")):
        yield f"replace_pattern({target}, {quoted(pattern)}, {quoted(new)}) where {where}"
    yield f'set({target}, "unspecified") where {where} and {target} == ""'


def numbers(rules: dict[str, Any]) -> Iterator[str]:
    """The HTTP status and the JSON-RPC code, from attributes of their own or from error.type."""
    for name in rules["http_status"]:
        number = attribute(name)
        yield put(
            STATUS, number, f"{STATUS} == nil", f"IsInt({number}) and {number} >= 100 and {number} <= 599"
        )
    for name in rules["json_rpc"]:
        number = attribute(name)
        fits = f'(IsInt({number}) or IsMatch({number}, "^-?[0-9]{{1,10}}$"))'
        not_ok = f"Int({number}) != 0"
        yield put(PROTOCOL, f"Int({number})", f"{PROTOCOL} == nil", f"{number} != nil", fits, not_ok)
    number, value = 'span.cache["number"]', 'span.cache["value"]'
    yield put(number, f"Int({value})", f'IsMatch({value}, "^-?[0-9]{{1,10}}$")')
    fits = f"{PROTOCOL} == nil and {number} != nil"
    speaks = [source for source in rules["sources"] if source.get("json_rpc")]
    is_mcp = " or ".join(f"{attribute(s['attribute'])} != nil" for s in speaks)
    not_mcp = " and ".join(f"{attribute(s['attribute'])} == nil" for s in speaks)
    known = " or ".join(f"{number} == {code}" for code in rules["json_rpc_codes"] if 100 <= code <= 599)
    yield put(PROTOCOL, number, fits, not_mcp, f"{number} >= -32768 and {number} <= -32000")
    yield put(PROTOCOL, number, fits, f"({is_mcp})", f"({known} or {number} < 100 or {number} > 599)")
    yield put(
        STATUS,
        number,
        f"{number} != nil and {PROTOCOL} == nil and {STATUS} == nil",
        f"{number} >= 400 and {number} <= 599",
    )


def by_class(rules: dict[str, Any], subject: str) -> Iterator[str]:
    """What the tables know of a class name."""
    known = f"{subject} != nil"
    for row in rules["exceptions"]:
        fits = one_of(subject, row["types"])
        if row.get("number") == "json_rpc":
            yield from by_protocol(rules, known, fits)
        if row.get("number") == "http_status":
            yield put(FOUND, of_status(), OPEN, known, f"{STATUS} >= 400", fits)
        if status := row.get("status"):
            yield put(STATUS, str(status), OPEN, known, f"{STATUS} == nil", fits)
            yield put(FOUND, of_status(), OPEN, known, fits)
            continue
        yield put(FOUND, verdict(row), OPEN, known, fits)
    yield from by_provider(rules, subject)


def by_provider(rules: dict[str, Any], subject: str) -> Iterator[str]:
    """A class of a model provider's SDK."""
    providers = rules["providers"]
    modules = "|".join(re.escape(module) for module in providers["modules"])
    its_own = " or ".join(f"{subject} == {quoted(name)}" for name in providers["not"])
    yield put('span.cache["provider"]', "false")
    of_a_module = f"IsMatch({subject}, {quoted(f'^(?:{modules})')})"
    by_name = f"({of_a_module} or {one_of(subject, providers['bare'])})"
    yield put('span.cache["provider"]', "true", OPEN, f"{subject} != nil", by_name, f"not ({its_own})")
    is_it = 'span.cache["provider"] == true'
    for row in providers["classes"]:
        fits = one_of(subject, row["types"], "(?:.*[.])?")
        if status := row.get("status"):
            yield put(STATUS, str(status), OPEN, is_it, f"({STATUS} == nil or {STATUS} < 400)", fits)
        else:
            yield put(FOUND, verdict({"errorType": "provider_error", **row}), OPEN, is_it, fits)
    for status, code in rules["http"]["provider_codes"].items():
        yield put(FOUND, quoted(f"provider_error {code} status"), OPEN, is_it, f"{STATUS} == {status}")
    yield put(FOUND, of_status("provider_error"), OPEN, is_it, f"{STATUS} >= 400")
    yield put(FOUND, '"provider_error - -"', OPEN, is_it)


def by_protocol(rules: dict[str, Any], *conditions: str) -> Iterator[str]:
    for number, row in rules["json_rpc_codes"].items():
        yield put(FOUND, verdict(row), OPEN, f"{PROTOCOL} == {number}", *conditions)
    other = f'Concat(["provider_error jsonrpc_", String({PROTOCOL}), " -"], "")'
    yield put(FOUND, other, OPEN, f"{PROTOCOL} != nil", *conditions)
    yield f'replace_pattern({FOUND}, "jsonrpc_-", "jsonrpc_") where {FOUND} != nil'


def of_what_kind(rules: dict[str, Any]) -> Iterator[str]:
    """errorType, errorCode and the rest of each failed call: the first evidence that the tables know."""
    kind, value, name_of = 'span.cache["class"]', 'span.cache["value"]', 'span.cache["name"]'
    for name in ("class", "message", "text", "declared"):
        temporary = attribute(f"acrux.tmp.{name}")
        yield put(f'span.cache["{name}"]', temporary, f'{temporary} != nil and {temporary} != ""')
    yield 'delete_matching_keys(span.attributes, "^acrux\\\\.tmp\\\\.")'
    yield f'replace_pattern({kind}, "^\\\\*?(builtins\\\\.)?", "") where {kind} != nil'
    ends = [name for types in rules["control_flow"].values() for name in types]
    yield f'delete_key(span.cache, "class") where span.status.code == STATUS_CODE_OK and {one_of(kind, ends)}'
    yield put(
        value,
        attribute("error.type"),
        f"IsString({attribute('error.type')})",
        f'{attribute("error.type")} != ""',
    )
    yield from numbers(rules)
    # the owner's word
    owner = f'IsMatch({attribute("errorType")}, "^(?:{ERROR_TYPES})$")'
    yield put('span.cache["owner"]', '""', owner)
    yield put('span.cache["owner"]', attribute("errorCode"), owner, f"IsString({attribute('errorCode')})")
    yield from slug('span.cache["owner"]', 'span.cache["owner"] != nil')
    wrote = 'span.cache["owner"] != nil'
    for last, kind_of in (("status", f'{attribute("errorType")} == "http_status"'), ("-", "")):
        said = f'Concat([{attribute("errorType")}, span.cache["owner"], "{last}"], " ")'
        yield put(FOUND, said, OPEN, wrote, kind_of)
    # the exception's class, then error.type
    yield from by_class(rules, kind)
    yield put(name_of, kind, f"{FOUND} != nil")
    for name, row in rules["error_types"].items():
        if row["errorType"] != "tool_declared":
            yield put(FOUND, verdict(row), OPEN, f"{value} == {quoted(name)}")
    yield f'replace_pattern({value}, "^\\\\*?(builtins\\\\.)?", "") where {value} != nil'
    yield from by_class(rules, value)
    yield put(name_of, value, f"{FOUND} != nil and {name_of} == nil")
    # numbers
    yield put(FOUND, of_status(), OPEN, f"{STATUS} >= 400")
    yield from by_protocol(rules)
    for name in rules["grpc"]:
        for number, row in rules["grpc_codes"].items():
            yield put(FOUND, verdict(row), OPEN, f"{attribute(name)} == {number}")
    # the words that say no more than that it failed
    yield put(name_of, f"Coalesce([{kind}, {value}])", OPEN)
    yield put(FOUND, '"tool_declared - -"', OPEN, f"{kind} != nil")
    for name, row in rules["error_types"].items():
        if row["errorType"] == "tool_declared":
            yield put(FOUND, verdict(row), OPEN, f"{value} == {quoted(name)}")
    yield put(FOUND, '"tool_declared tool_error -"', OPEN, 'span.cache["declared"] == true')
    yield put(FOUND, '"tool_declared unspecified -"', OPEN, f"{value} == {quoted(rules['error_type_other'])}")
    yield put(FOUND, '"tool_declared - -"', OPEN, f"{value} != nil")
    yield put(FOUND, '"tool_declared span_error -"', OPEN)
    yield from write(rules)


def write(rules: dict[str, Any]) -> Iterator[str]:
    """Put the verdict on the span."""
    code = 'span.cache["code"]'
    yield put(code, FOUND)
    yield f'replace_pattern({code}, "^[a-z_]+ (.*) [a-z-]+$", "$${{1}}")'
    yield put(code, 'span.cache["name"]', f'{code} == "-"')
    yield put('span.cache["retryable"]', FOUND)
    yield 'replace_pattern(span.cache["retryable"], "^.* ", "")'
    yield put(attribute("errorType"), FOUND)
    yield f'replace_pattern({attribute("errorType")}, " .*$", "")'
    # a class name's last part; a code that is one already is left alone
    yield f'replace_pattern({code}, "^.*[.:$/]", "")'
    yield from slug(code, f"{code} != nil")
    yield put(attribute("errorCode"), code)
    yield put(attribute("error.type"), attribute("errorType"), f"{attribute('error.type')} == nil")
    retryable = attribute("acrux.tool.retryable")
    for truth in ("true", "false"):
        yield put(retryable, truth, f'{retryable} == nil and span.cache["retryable"] == "{truth}"')
    by_number = f'{retryable} == nil and span.cache["retryable"] == "status"'
    for truth, statuses in (("true", rules["http"]["retryable"]), ("false", rules["http"]["not_retryable"])):
        known = " or ".join(f"{STATUS} == {status}" for status in statuses)
        yield put(retryable, truth, by_number, f"({known})")
    yield put(retryable, "false", by_number, f"{STATUS} >= 400 and {STATUS} < 500")
    number = attribute("http.response.status_code")
    yield put(
        number, STATUS, f"{number} == nil and {STATUS} != nil", '(IsMatch(span.cache["verdict"], " status$"))'
    )
    detail = 'span.cache["detail"]'
    yield put(detail, attribute("errorDetail"), f"IsString({attribute('errorDetail')})")
    for source in (
        'span.cache["message"]',
        'span.cache["class"]',
        'span.cache["text"]',
        "span.status.message",
        code,
    ):
        yield put(detail, source, f'({detail} == nil or {detail} == "") and {source} != nil')
    for pattern, new in (("\\x00", ""), ("\\x{FFFD}", "\ufffd")):
        yield f"replace_pattern({detail}, {quoted(pattern)}, {quoted(new)}) where {detail} != nil"
    yield "truncate_all(span.cache, 1024)"
    yield put(attribute("errorDetail"), detail)
    yield "truncate_all(span.cache, 256)"
    unset = "span.status.code == STATUS_CODE_UNSET"
    yield put("span.status.message", detail, unset)
    yield put("span.status.code", "STATUS_CODE_ERROR", unset)


def group(title: str, context: str, conditions: Iterable[str], statements: Iterable[str]) -> Iterator[str]:
    yield f"  # {title}"
    yield f"  - context: {context}"
    yield "    conditions:"
    for condition in conditions:
        yield f"      - {literal(condition)}"
    yield "    statements:"
    for statement in statements:
        yield f"      - {literal(statement)}"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def render() -> str:
    """The text of pieces/normalise.yaml.

    Raises:
        OSError: rules.yaml cannot be read.
    """
    rules = yaml.safe_load(RULES.read_text("utf-8"))
    is_tool = " or ".join(f"{attribute(s['attribute'])} == {quoted(s['value'])}" for s in rules["sources"])
    unjudged = f"{attribute('acrux.tool.outcome')} == nil and ({is_tool})"
    marked = f"{MARKED} and ({is_tool})"
    failed = 'span.attributes["acrux.tmp.failed"] == true'
    forged = [f"{attribute(f'acrux.tmp.{name}')} != nil" for name in SCRATCH]
    lines = [
        HEADER + "error_mode: ignore",
        "trace_statements:",
        *group(
            "Names that the groups below hand things on in, where a sender has made them up.", "span",
            [*forged, f"{attribute('acrux.tool.normalised_from')} != nil and {unjudged}"],
            [
                'delete_matching_keys(span.attributes, "^acrux\\\\.tmp\\\\.")',
                f'delete_key(span.attributes, "acrux.tool.normalised_from") where {unjudged}',
            ],
        ),
        *group("Which spans are tool calls.", "span", [unjudged], identity(rules)),
        *group(
            "The last exception is the one that ended the call.", "spanevent",
            [f'spanevent.name == "exception" and {marked}'], EVENT,
        ),
        *group("Whether the call failed.", "span", [marked], failed_or_not(rules)),
        *group("Of what kind the failure is.", "span", [failed], of_what_kind(rules)),
        *group(
            "What the groups handed to each other.", "span", ['span.attributes["acrux.tmp.class"] != nil'],
            ['delete_matching_keys(span.attributes, "^acrux\\\\.tmp\\\\.")'],
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Write pieces/normalise.yaml from toolverdictprocessor/rules.yaml."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where the file is not up to date"
    )
    options = parser.parse_args(arguments)
    text = render()
    if not options.check:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text("utf-8") != text:
        print(
            f"{TARGET.name} is not what rules.yaml says: run `python collector-config/write_normalise.py`",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
