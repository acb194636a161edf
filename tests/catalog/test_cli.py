# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel sync` and `acrux-otel catalog`, as they are run."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acrux_otel.catalog import Definition, Ref, ServerCatalog, SqlCatalog
from acrux_otel.catalog.sql import Keys

from .terminal import Terminal

TOOLS = """
    import acrux_otel as acrux

    @acrux.tool
    def get_weather(city: str, days: int = 1) -> dict:
        "The weather of a city."

    @acrux.tool(changelog="first")
    def pay(amount: float): ...
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    made = Terminal(tmp_path)
    made.write("shop/__init__.py", "")
    made.write("shop/tools.py", TOOLS)
    return made


# -- acrux-otel sync ------------------------------------------------------------------------------------


def test_a_deploy_step_syncs_checks_and_shows_what_differs(terminal: Terminal) -> None:
    done = terminal.run("sync", "shop.tools")
    assert (done.code, done.err) == (0, "catalog: sqlite:///.acrux/acrux.db\n")
    assert [line.split() for line in done.out.splitlines()[1:]] == [
        ["get_weather", "production", "1", "committed"],
        ["pay", "production", "1", "committed"],
    ]
    assert terminal.run("sync", "shop.tools", "--check").code == 0

    terminal.write("shop/tools.py", TOOLS.replace("days: int = 1", "days: int"))
    done = terminal.run("sync", "shop/tools.py", "--check", "--diff")
    assert done.code == 1
    assert "differs: breaking" in done.out
    assert "  ! parameters.days: now required\n" in done.out
    assert '  - parameters.required: ["city"]\n  + parameters.required: ["city","days"]\n' in done.out
    assert terminal.run("sync", "shop.tools", "--diff").code == 0
    assert terminal.catalog().tool("get_weather").version_count == 1

    done = terminal.run(
        "sync", "shop.tools", "--changelog", "days are needed", "--alias", "staging", "--json"
    )
    told = {each["name"]: each for each in done.json["tools"]}
    assert (done.code, done.json["catalog"]) == (0, "sqlite:///.acrux/acrux.db")
    assert {key: told["get_weather"][key] for key in ("versionNumber", "committed", "alias", "change")} == {
        "versionNumber": 2,
        "committed": True,
        "alias": "staging",
        "change": "breaking",
    }
    assert told["pay"]["committed"] is False


def test_a_check_tells_programs_what_is_not_there(terminal: Terminal) -> None:
    catalog = terminal.catalog()
    catalog.sync(Definition("pay", {"type": "object"}))
    done = terminal.run("sync", "shop.tools", "--check", "--diff", "--json")
    assert (done.code, done.json["current"]) == (1, False)
    weather, pay = done.json["tools"]
    assert (weather["current"], weather["versionNumber"], weather["change"]) == (False, None, None)
    assert (pay["current"], pay["versionNumber"], pay["change"]) == (False, 1, "breaking")
    assert "parameters.amount: now required" in pay["breaking"]
    assert {"path", "before", "after"} == set(pay["edits"][0])


def test_what_acruxcore_does_not_keep_is_no_drift(terminal: Terminal) -> None:
    """Result schemas and annotations are not in its contract."""
    catalog = terminal.catalog()
    with _serving(terminal) as address:
        terminal.environment |= {"ACRUXCORE_BASE_URL": address, "ACRUXCORE_API_KEY": _key(catalog)}
        assert terminal.run("sync", "shop.tools", "--catalog", "acruxcore").code == 0
        done = terminal.run("sync", "shop.tools", "--check")
        assert (done.code, done.err) == (0, f"catalog: {address}\n")
        terminal.environment["ACRUX_OTEL_CATALOG_KEY"] = _key(catalog)
        del terminal.environment["ACRUXCORE_BASE_URL"]
        done = terminal.run("sync", "shop.tools", "--check", "--catalog", address)
        assert (done.code, "differs: compatible" in done.out) == (1, True)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("shop.nothing", "there is no module 'shop.nothing'; expected package.module or path/to/file.py"),
        ("nothing.py", "there is no file 'nothing.py'"),
        ("shop.tools:pay", "'shop.tools:pay' names an object; expected its module, shop.tools"),
        ("json", "json loads no decorated tool; name the module whose functions have @acrux.tool"),
        ("broken", "broken cannot be imported: ZeroDivisionError: division by zero ("),
        ("needs", "needs cannot be imported: ModuleNotFoundError: No module named 'not_there'"),
        ("ends", "ends ends the program when it is imported (exit code 3)"),
        ("typo", "typo cannot be imported: SyntaxError"),
    ],
)
def test_what_cannot_be_imported_is_one_line(terminal: Terminal, module: str, told: str) -> None:
    terminal.write("broken.py", "1/0")
    terminal.write("needs.py", "import not_there")
    terminal.write("ends.py", "import sys; sys.exit(3)")
    terminal.write("typo.py", "def (")
    done = terminal.run("sync", module)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"error: {told}")


def test_an_error_reports_what_was_synced_before_it(terminal: Terminal) -> None:
    """Refused names are found before; what a server refuses comes in between."""
    terminal.write("shop/tools.py", TOOLS + '\n    @acrux.tool(name="z z")\n    def late(): ...\n')
    done = terminal.run("sync", "shop.tools")
    assert done.code == 2
    assert "error: tool 'z z': a catalog refuses ' '" in done.err
    assert terminal.catalog().tools().total == 0
    terminal.write("shop/tools.py", TOOLS + "\n    @acrux.tool(sync=False)\n    def zz(): ...\n")
    done = terminal.run("sync", "shop.tools")
    assert done.code == 2
    assert done.err.endswith(
        "error: the catalog has no zz@production\n"
        "synced before it, and kept: get_weather (version 1), pay (version 1)\n"
    )
    done = terminal.run("sync", "shop.tools", "--json")
    assert done.code == 2
    assert [each["name"] for each in done.json["tools"]] == ["get_weather", "pay"]
    assert done.json["error"] == "the catalog has no zz@production"


# -- acrux-otel catalog ---------------------------------------------------------------------------------


def test_a_catalog_is_looked_through_and_promoted(terminal: Terminal) -> None:
    terminal.run("sync", "shop.tools")
    terminal.write("shop/tools.py", TOOLS.replace("city: str", "city: int"))
    terminal.run("sync", "shop.tools", "--changelog", "ids")

    listed = terminal.run("catalog", "list", "--search", "weather")
    assert listed.out.splitlines()[0].split() == [
        "tool",
        "production",
        "latest",
        "runs",
        "aliases",
        "description",
    ]
    assert "get_weather  2           2       client" in listed.out
    assert "pay" not in listed.out

    shown = terminal.run("catalog", "show", "get_weather:1")
    assert "get_weather:1" in shown.out and '"type": "string"' in shown.out
    differs = terminal.run("catalog", "diff", "get_weather:1", "get_weather")
    assert differs.out.startswith("get_weather:1 -> get_weather:2: breaking\n")
    assert "  ! parameters.city: string -> integer\n" in differs.out

    promoted = terminal.run("catalog", "promote", "get_weather@staging", "production")
    assert promoted.out == "get_weather@production is now version 1\n"
    head, *lines = terminal.run("catalog", "history", "get_weather").out.splitlines()
    assert head.startswith("when (UTC)")
    rows = [line.split() for line in lines]
    assert [row[3:8] for row in rows] == [
        ["promote", "production", "2", "->", "1"],
        ["commit", "production", "1", "->", "2"],
        ["commit", "production", "1", "code"],
    ]
    assert terminal.catalog().resolve([Ref("get_weather")])[0].version_number == 1


def test_only_where_there_is_more_is_told_of_it(terminal: Terminal) -> None:
    for name in ("one", "two", "three"):
        terminal.catalog().sync(Definition(name, {}))
    told = {
        page: terminal.run("catalog", "list", "--limit", "2", "--page", page).err.splitlines()[1:]
        for page in ("1", "2", "9")
    }
    assert told == {
        "1": ["2 of 3 tools; --page 2 for more"],
        "2": [],
        "9": ["3 tools are on page 1 to 2"],
    }
    terminal.catalog().sync(Definition("one", {"type": "object"}))
    done = terminal.run("catalog", "history", "one", "--limit", "1")
    assert done.err.endswith("1 of 2 events; --page 2 for more\n")


def test_every_view_has_a_form_for_programs(terminal: Terminal) -> None:
    terminal.run("sync", "shop.tools")
    assert [each["name"] for each in terminal.run("catalog", "list", "--json").json["data"]] == [
        "pay",
        "get_weather",
    ]
    shown = terminal.run("catalog", "show", "pay", "--json").json
    assert (shown["tool"]["name"], shown["version"]["changelog"]) == ("pay", "first")
    assert terminal.run("catalog", "history", "pay", "--json").json["data"][0]["action"] == "commit"
    assert terminal.run("catalog", "diff", "pay", "get_weather", "--json").json["change"] == "breaking"
    assert terminal.run("catalog", "promote", "pay", "canary", "--json").json["alias"] == "canary"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "nope"), "the catalog has no nope@production"),
        (("show", "get_wether"), "the catalog has no get_wether@production; did you mean get_weather?"),
        (("show", "pay:9"), "the catalog has no pay:9; pay has the versions 1 to 2"),
        (("show", "pay@canary"), "the catalog has no pay@canary; pay has the aliases production, staging"),
        (("diff", "pay:1", "pay:3"), "the catalog has no pay:3; pay has the versions 1 to 2"),
        (("history", "pai"), "the catalog has no tool 'pai'; did you mean pay?"),
        (("promote", "pay", "1"), "'1' looks like a version; write: promote pay:1 production"),
        (("show", "a@b:c@"), "the catalog has no a@b:c@"),
        (("show", ":3"), "':3' is no reference to a tool; expected NAME, NAME@alias or NAME:version"),
        (("history", "nope"), "the catalog has no tool 'nope'"),
        (("promote", "pay:9", "production"), "the catalog has no pay:9; pay has the versions 1 to 2"),
        (("list", "--catalog", "http://127.0.0.1:9/x"), "cannot be reached"),
        (("list", "--page", "9" * 30), "9; expected a whole number from 1 to 1,000,000"),
        (("history", "pay", "--limit", "0"), "limit is 0; expected a whole number from 1 to 100"),
        (("list", "--catalog", "nonsense"), "expected 'acruxcore', a database"),
        (("serve",), "no key can use this catalog yet; make one with: acrux-otel catalog keys create NAME"),
    ],
)
def test_a_mistake_is_one_line(terminal: Terminal, words: tuple[str, ...], told: str) -> None:
    for name, parameters in (("get_weather", {}), ("pay", {}), ("pay", {"type": "object"})):
        terminal.catalog().sync(Definition(name, parameters))
    done = terminal.run("catalog", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err.splitlines()[-1]


def test_a_text_from_a_catalog_cannot_steer_the_terminal(terminal: Terminal) -> None:
    terminal.catalog().sync(Definition("evil", {"type": "object"}, "\x1b[2J\x1b]0;owned\x07", annotations={}))
    for words in (("list",), ("show", "evil"), ("history", "evil")):
        assert not {"\x1b", "\x07"} & set(terminal.run("catalog", *words).out)


def test_a_served_catalog_needs_the_key_that_was_made_for_it(terminal: Terminal) -> None:
    created = terminal.run("catalog", "keys", "create", "ci")
    key = created.out.strip()
    assert created.out == f"{key}\n" and key.startswith("acx_sk_")
    assert terminal.run("catalog", "keys", "create", "ci").code == 2
    with _serving(terminal) as address:
        terminal.environment["ACRUX_OTEL_CATALOG_KEY"] = key
        assert terminal.run("sync", "shop.tools", "--catalog", address).code == 0
        client = ServerCatalog(address, key)
        assert [each.by for each in client.history(client.tool("pay").id)] == ["ci"]
        assert terminal.run("catalog", "keys", "revoke", "ci").code == 0
        done = terminal.run("catalog", "list", "--catalog", address)
        assert done.code == 2 and "answered 401" in done.err
        assert key not in done.err
    listed = terminal.run("catalog", "keys", "list", "--json").json
    assert [(each["name"], each["role"], bool(each["revoked_at"])) for each in listed] == [
        ("ci", "editor", True)
    ]
    assert key not in terminal.run("catalog", "keys", "list").out


def _key(catalog: SqlCatalog) -> str:
    names = {each.name for each in Keys(catalog.database).list()}
    return Keys(catalog.database).create(f"key_{len(names)}")


@contextlib.contextmanager
def _serving(terminal: Terminal) -> Iterator[str]:
    """`acrux-otel catalog serve` in a process of its own."""
    if not Keys(terminal.catalog().database).list():
        _key(terminal.catalog())
    server = subprocess.Popen(
        [sys.executable, "-c", "from acrux_otel.cli import main; main()", "catalog", "serve", "--port", "0"],
        cwd=terminal.folder,
        env=terminal.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        assert server.stderr.readline() == "catalog: sqlite:///.acrux/acrux.db\n"
        yield server.stderr.readline().removeprefix("serving on ").strip()
        server.send_signal(signal.SIGTERM)
        server.wait(20)
    finally:
        server.kill()
        server.wait()
