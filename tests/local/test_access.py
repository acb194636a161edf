# SPDX-License-Identifier: Apache-2.0
"""Who may ask what: loopback, the key, other sites, and what a page may do with what a span says."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from otlp_corpus import Run, request

from .server import COMMAND, PROTOBUF, Up, environment

KEY = "correct horse / battery"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(Path(tmp_path_factory.mktemp("home")), "--key", KEY) as server:
        yield server


def body() -> bytes:
    run = Run("agent")
    run.call("weather", "error", "location_not_found")
    return request(run).SerializeToString()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", ""])
def test_other_hosts_need_a_key(tmp_path: Path, host: str) -> None:
    """Without a key nothing that others could reach is opened: one line, exit code 2."""
    command = [*COMMAND, "up", "--host", host, "--port", "0", "--home", str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: --host .* can be reached by others; give a key with --key .*\n", done.stderr)


def test_a_taken_port_is_one_line(up: Up, tmp_path: Path) -> None:
    """The address, the reason and the option that helps."""
    port = up.url.rpartition(":")[2]
    command = [*COMMAND, "up", "--port", port, "--home", str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert re.fullmatch(rf"error: 127\.0\.0\.1:{port} cannot be used: .* --port\n", done.stderr)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--keep", "forever", "such as 12h or 14d"),
        ("--max-size", "huge", "such as 500MB"),
        ("--max-size", "1MB", "10MB"),
    ],
)
def test_nonsense_limits_are_one_line(tmp_path: Path, option: str, value: str, said: str) -> None:
    """The option, what was given and what was expected."""
    command = [*COMMAND, "up", option, value, "--port", "0", "--home", str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {option} is '{value}'")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


class TestWithoutKey:
    """Whoever is on this machine, and no page of another site."""

    @pytest.mark.parametrize("host", ["localhost:4318", "127.0.0.1", "[::1]:4318", "LOCALHOST"])
    def test_loopback_names_are_answered(self, up: Up, host: str) -> None:
        """By whatever name this machine is called."""
        assert up.get("/traces", Host=host).status == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "evil.example:4318", "127.0.0.1.evil.example", "", "[bad"]
    )
    def test_other_names_are_not(self, up: Up, host: str) -> None:
        """A site that makes its name mean 127.0.0.1 reads and writes nothing."""
        assert up.get("/traces", Host=host).status in (400, 421)
        assert up.send(body(), Host=host).status in (400, 421)

    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://localhost:1"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
    )
    def test_other_sites_cannot_write(self, up: Up, headers: dict[str, str]) -> None:
        """Neither spans, nor the catalog."""
        assert up.send(body(), **headers).status == 403
        assert up.send(b"{}", "application/json", "/api/v1/tools/sync", **headers).status == 403

    def test_programs_and_its_own_pages_can_write(self, up: Up) -> None:
        """A program sends no Origin, a page of ours sends its own."""
        assert up.send(body()).status == 200
        assert up.send(body(), Origin=up.url, **{"Sec-Fetch-Site": "same-origin"}).status == 200

    def test_nothing_is_shared_with_other_sites(self, up: Up) -> None:
        """No answer has a header that lets another site read it."""
        for path in ("/traces", "/complete?q=s", "/api/v1/tools", "/static/page.css"):
            answer = up.get(path, Origin="https://evil.example")
            assert not [name for name in answer.headers if name.startswith("access-control-")]
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"


class TestWithKey:
    """Everything needs it, but the page that asks for it and its style."""

    @pytest.mark.parametrize("path", ["/traces?q=status%3Aerror", "/tools", "/catalog", "/"])
    def test_pages_ask_for_it(self, keyed: Up, path: str) -> None:
        """A browser is led to the key's page, and from there to where it wanted."""
        asked = keyed.get(path)
        assert asked.status == 303
        assert asked.headers["location"].startswith("/login?then=")
        form = b"key=correct+horse+%2F+battery"
        answer = keyed.send(form, "application/x-www-form-urlencoded", asked.headers["location"])
        assert (answer.status, answer.headers["location"]) == (303, path)
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert KEY not in cookie
        assert keyed.get(path, Cookie=cookie.partition(";")[0]).status in (200, 307)

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {KEY}"},
            {"Authorization": "Bearer"},
            {"Cookie": "acrux_key="},
            {"Cookie": f"acrux_key={'0' * 64}"},
            {"Authorization": "Bearer \xff"},
        ],
    )
    def test_without_it_nothing_is_told_or_taken(self, keyed: Up, headers: dict[str, str]) -> None:
        """Neither spans, nor the catalog, nor what scripts ask."""
        assert keyed.send(body(), **headers).status == 401
        for path in ("/complete?q=s", "/newest", "/api/v1/tools"):
            assert keyed.get(path, **headers).status == 401
        assert keyed.get("/traces", **headers).status == 303

    def test_with_it_programs_are_answered(self, keyed: Up) -> None:
        """As a bearer token, which exporters send as a header."""
        given = {"Authorization": f"Bearer {KEY}"}
        assert keyed.send(body(), **given).status == 200
        assert keyed.get("/api/v1/tools", **given).status == 200
        assert "location_not_found" in keyed.get("/complete?q=error_code:", **given).text

    def test_a_wrong_key_is_said(self, keyed: Up) -> None:
        """The page says that it is wrong, and sets no cookie."""
        answer = keyed.send(b"key=wrong", "application/x-www-form-urlencoded", "/login")
        assert answer.status == 403
        assert "That is not the key." in answer.text
        assert "set-cookie" not in answer.headers

    @pytest.mark.parametrize("then", ["//evil.example", "https://evil.example", "/%5Cevil.example", "evil"])
    def test_it_leads_nowhere_else(self, keyed: Up, then: str) -> None:
        """After the key, only to a path of this server."""
        answer = keyed.send(
            b"key=correct+horse+%2F+battery", "application/x-www-form-urlencoded", f"/login?then={then}"
        )
        assert answer.headers["location"] == "/traces"

    def test_other_sites_cannot_use_the_cookie(self, keyed: Up) -> None:
        """A browser sends no cookie there; and if it did, a write from elsewhere is refused all the same."""
        form = b"key=correct+horse+%2F+battery"
        answer = keyed.send(
            form, "application/x-www-form-urlencoded", "/login", Origin="https://evil.example"
        )
        assert answer.status == 403


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "' onmouseover='alert(1)",
    "</pre></details><h1>",
    "\u202e\u0000\u001b[31m",
]


@pytest.fixture(scope="module")
def run(up: Up) -> Run:
    """A run whose every part is hostile."""
    run = Run(HOSTILE[0], tags=HOSTILE)
    for text in HOSTILE:
        given = {"gen_ai.tool.call.arguments": text, "toolVersionId": text, text: text}
        run.call(text, "error", text, detail=text, given=given)
        run.call(text, "warning", text, detail=text)
    event = {HOSTILE[1]: HOSTILE[0], "exception.stacktrace": HOSTILE[1]}
    nested = [HOSTILE[1], {HOSTILE[2]: HOSTILE[0]}]
    run.span(HOSTILE[1], given={HOSTILE[0]: nested}, events={HOSTILE[0]: event})
    assert up.send(request(run, service=HOSTILE[0]).SerializeToString()).status == 200
    return run


class TestHostileSpans:
    """Everything that came from a span is text and nothing else."""

    def test_pages_hold_it_escaped(self, up: Up, run: Run) -> None:
        """No page holds a tag, a handler or an address that a span brought; all of it can be read."""
        shown = "".join(
            up.get(path).text
            for path in ("/traces", f"/traces/{run.trace_id}", "/tools", f"/traces?q={'%22%3Cscript%3E%22'}")
        )
        assert re.findall(r"<script(?! src=\"/static/(?:filter|trace)\.js\" defer)[^>]*>", shown) == []
        assert re.findall(r"<img|<h1>(?!\w|\s*&lt;|Traces|Tools)", shown) == []
        assert re.findall(r"<[^>]*\son\w+\s*=", shown) == []
        assert re.findall(r"href=\"(?!/|\?|#|http://127\.0\.0\.1|\")[^\"]*\"", shown) == []
        assert "49" not in re.findall(r">\s*49\s*<", shown)
        for text in HOSTILE[:4]:
            assert html.escape(text, quote=False).replace('"', "&#34;") in shown

    @pytest.mark.parametrize(
        "path", ["/traces", "/traces/{}", "/tools", "/catalog", "/nowhere", "/static/page.css"]
    )
    def test_pages_may_run_nothing_but_their_own_scripts(self, up: Up, run: Run, path: str) -> None:
        """The policy allows no inline script or style, no frame, no foreign source; and pages have none."""
        answer = up.get(path.format(run.trace_id))
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "*" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert re.findall(r"\sstyle=|<style|<script>|\son[a-z]+=\"", answer.text) == []
        assert re.findall(r"(?:src|href)=\"(?:https?:)?//(?!127\.0\.0\.1)", answer.text) == []

    @pytest.mark.parametrize(
        "path",
        [
            "/traces?q=%00",
            "/traces?q=%ff%fe",
            "/traces?after=x-y",
            "/traces?after=99999999999999999999-1",
            "/traces/zz",
            "/traces/" + "0" * 5000,
            "/traces?q=" + "a" * 5000,
            "/tools?since='--",
            "/catalog?page=-1",
            "/catalog/%3Cscript%3E",
            "/complete?q=%22&at=99999",
            "/complete?q=tool:%22&at=x",
            "/newest?q=status:x",
            "/static/../page.py",
            "/static/%2e%2e/store.py",
        ],
    )
    def test_hostile_addresses(self, up: Up, path: str) -> None:
        """Any address gets a page or a refusal, never a fault."""
        assert up.get(path).status in (200, 400, 404)

    def test_a_wrong_filter_is_marked_on_the_page(self, up: Up) -> None:
        """The place and the proposal are there, escaped."""
        answer = up.get("/traces?q=eror_type:%3Cb%3E")
        assert answer.status == 400
        assert "did you mean error_type:?" in answer.text
        assert "^^^^^^^^^" in answer.text
        assert "<b>" not in answer.text


def test_the_catalog_is_served_beside_the_page(up: Up) -> None:
    """A definition that is synced to it is on the Catalog page, with what changed between two versions."""
    definition = {
        "name": "look_up",
        "description": "Look something up.",
        "parametersSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "executor": {"type": "client"},
    }
    first = up.send(json.dumps(definition).encode(), "application/json", "/api/v1/tools/sync")
    assert first.json["versionNumber"] == 1
    definition["parametersSchema"] = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
        "required": ["unit"],
    }
    second = up.send(json.dumps(definition).encode(), "application/json", "/api/v1/tools/sync")
    assert second.json["versionNumber"] == 2

    assert 'href="/catalog/look_up"' in up.get("/catalog").text
    page = up.get("/catalog/look_up").text
    assert re.search(r'class="added"><ins>\s+&#34;unit&#34;', page)
    assert 'class="change breaking"' in page
    assert "production → 2" in page
    run = Run("agent")
    run.call("look_up", given={"toolVersionId": second.json["versionId"]})
    run.call("look_up", given={"toolVersionId": f"{second.json['toolId']}:1"})
    up.send(request(run).SerializeToString(), PROTOBUF)
    trace = up.get(f"/traces/{run.trace_id}").text
    assert '<a href="/catalog/look_up?to=2">look_up version 2</a>' in trace
    assert '<a href="/catalog/look_up?to=1">look_up version 1</a>' in trace
    assert up.get("/catalog/look_up?to=1").status == 200
    assert up.get("/catalog/nothing_here").status == 404
