# SPDX-License-Identifier: Apache-2.0
"""What docs/finding-failures.md tells a person to do, done in Chromium."""

from __future__ import annotations

import re
from typing import Any

import pytest
from otlp_corpus import Run, request

from local.server import Up

STATUSES = "#runs tbody .status"


def rows(page: Any) -> list[str]:
    """The status of every run on the page, newest first."""
    return [str(text).strip() for text in page.locator(STATUSES).all_text_contents()]


def search(page: Any, text: str) -> None:
    page.fill("#q", text)
    page.press("#q", "Enter")
    page.wait_for_url(re.compile(r"/traces\?q="))


def test_three_green_and_then_green_red_amber(page: Any) -> None:
    """The silent form leaves three green runs; the declared one tells the truth."""
    page.goto("/")
    assert page.title() == "Traces · acrux-otel"
    assert rows(page) == ["warning", "error", "ok", "ok", "ok", "ok"]
    search(page, "tag:silent")
    assert rows(page) == ["ok", "ok", "ok"]
    search(page, "tag:declared")
    assert rows(page) == ["warning", "error", "ok"]


def test_the_filter_finds_two_and_then_one(page: Any) -> None:
    """error_type:tool_declared is both calls that said so; status:error leaves the one that failed."""
    page.goto("/traces")
    search(page, "error_type:tool_declared")
    assert rows(page) == ["warning", "error"]
    search(page, "error_type:tool_declared status:error")
    assert rows(page) == ["error"]
    assert page.locator(".chips li").count() == 2
    page.click("[aria-label='Remove status:error']")
    assert rows(page) == ["warning", "error"]
    assert page.input_value("#q") == "error_type:tool_declared"


def test_the_address_can_be_shared(page: Any) -> None:
    """Opened in another tab, it is the same search."""
    page.goto("/traces?q=error_type%3Atool_declared+status%3Aerror")
    assert page.input_value("#q") == "error_type:tool_declared status:error"
    assert rows(page) == ["error"]


def test_the_red_span(page: Any) -> None:
    """The failed tool span is red and open, with a sentence and the tool's own words."""
    page.goto("/traces?q=status%3Aerror")
    page.click("#runs tbody a")
    page.wait_for_url(re.compile(r"/traces/[0-9a-f]{32}$"))
    span = page.locator(".span.error")
    assert span.count() == 1
    assert "execute_tool get_weather_brief" in span.locator("summary").first.inner_text()
    facts = dict(zip(span.locator("dt").all_inner_texts(), span.locator("dd").all_inner_texts(), strict=True))
    assert facts["Failure"] == "The tool reported a failure location_not_found"
    assert facts["Error"] == "no city is called Atlantis Prime"
    assert span.locator(".bar rect").evaluate("bar => getComputedStyle(bar).fill") == "rgb(179, 38, 30)"
    span.get_by_role("link", name="location_not_found").click()
    assert page.input_value("#q") == "error_code:location_not_found"
    assert rows(page) == ["error"]


def test_the_amber_band(page: Any) -> None:
    """The warned tool span is green, with a badge and a band that names the warning."""
    page.goto("/traces?q=warning%3Ayes")
    page.click("#runs tbody a")
    span = page.locator(".span.warned")
    assert span.count() == 1
    assert page.locator(".span.error").count() == 0
    assert span.locator(".badge").inner_text() == "warning"
    assert span.locator(".bar rect").evaluate("bar => getComputedStyle(bar).fill") == "rgb(26, 107, 52)"
    band = span.locator(".band")
    assert band.locator("h3").inner_text() == "AMBIGUOUS_CITY"
    assert band.locator("p").inner_text() == "matches India, Pakistan"
    assert band.is_visible()


def test_the_keyboard_alone(page: Any) -> None:
    """From the top of the page to the failed span without a mouse: complete, search, open, close a row."""
    page.goto("/traces")
    focused = "document.activeElement"
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.id") == "q"

    page.keyboard.type("error_c")
    page.wait_for_selector("#proposals li")
    page.keyboard.press("ArrowDown")
    chosen = page.evaluate(f"{focused}.getAttribute('aria-activedescendant')")
    assert page.get_attribute(f"#{chosen}", "aria-selected") == "true"
    page.keyboard.press("Enter")
    assert page.input_value("#q") == "error_code:"
    page.locator("#proposals li").nth(1).wait_for()
    page.locator("#proposals li").nth(2).wait_for(state="detached")
    assert page.locator("#proposals li span").all_inner_texts() == [
        "error_code:ambiguous_city",
        "error_code:location_not_found",
    ]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Tab")
    assert page.input_value("#q") == "error_code:location_not_found "
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"q=error_code"))
    assert rows(page) == ["error"]

    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate(f"{focused}.closest('#runs') !== null"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/traces/[0-9a-f]{32}$"))
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate(f"{focused}.closest('.span.error') !== null"):
            break
    assert page.evaluate(f"{focused}.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    assert not page.locator(".span.error .failure").is_visible()
    page.keyboard.press("Enter")
    assert page.locator(".span.error .failure").is_visible()


def test_a_mistake_is_shown_where_it_is(page: Any) -> None:
    """The marked place and the proposal; the box keeps what was typed and says that it is wrong."""
    page.goto("/traces")
    search(page, "status:error eror_type:tool_declared")
    shown = page.locator("#filter-error").inner_text().splitlines()
    assert "did you mean error_type:?" in shown[0]
    assert shown[2].index("^") == shown[1].index("eror_type")
    assert page.input_value("#q") == "status:error eror_type:tool_declared"
    assert page.get_attribute("#q", "aria-invalid") == "true"
    assert page.locator("#runs").count() == 0


def test_escape_closes_the_proposals(page: Any) -> None:
    """And what was typed stays."""
    page.goto("/traces")
    page.locator("#q").focus()
    page.keyboard.type("st")
    page.wait_for_selector("#proposals li")
    page.keyboard.press("Escape")
    assert page.locator("#proposals").is_hidden()
    assert page.get_attribute("#q", "aria-expanded") == "false"
    assert page.input_value("#q") == "st"


def test_new_runs_are_announced(page: Any, demo: Up) -> None:
    """A page that is open says that newer runs have come, and shows them when asked."""
    page.goto("/traces?q=tool%3Alate")
    assert page.locator(".nothing").inner_text() == "No run meets this filter."
    run = Run("late")
    run.call("late")
    demo.send(request(run).SerializeToString())
    page.locator("#newer a").click()
    assert rows(page) == ["ok"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/traces", "/traces?q=status%3Aerror", "/tools", "/catalog"])
def test_text_stands_out_in_light_and_dark(page: Any, scheme: str, path: str) -> None:
    """Every text has a contrast of at least 4.5 to what is behind it (WCAG 2.2, 1.4.3)."""
    page.emulate_media(color_scheme=scheme)
    page.goto(path)
    if "status" in path:
        page.click("#runs tbody a")
        page.wait_for_selector(".waterfall")
    assert page.evaluate(CONTRAST) == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 26)")


@pytest.mark.parametrize(
    "path", ["/traces", "/traces?q=status%3Aerror", "/tools", "/catalog", "/traces/none"]
)
def test_a_screen_reader_finds_its_way(page: Any, demo: Up, path: str) -> None:
    """One heading of the first rank, a main part, names for every link, button and box, heads for tables."""
    text = demo.get(path).text
    page.set_content(text)
    assert page.locator("h1").count() == 1
    assert page.locator("main").count() == 1
    assert page.get_attribute("html", "lang") == "en"
    assert page.evaluate(UNNAMED) == []
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator("thead th:not([scope=col])").count() == 0


def test_a_narrow_window(page: Any) -> None:
    """On a phone nothing but a wide table is wider than the window."""
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto("/traces?q=status%3Aerror")
    page.click("#runs tbody a")
    page.wait_for_selector(".waterfall")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


CONTRAST = """() => {
  const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = numbers(colour).map(value => {
      value /= 255;
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if ((numbers(colour)[3] ?? 1) > 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const wrong = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.getClientRects().length) continue;
    const both = [light(getComputedStyle(element).color), light(behind(element))];
    const [low, high] = both.sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) wrong.push(`${walker.currentNode.textContent.trim()}: ${contrast.toFixed(2)}`);
  }
  return wrong;
}"""

UNNAMED = """() => [...document.querySelectorAll('a, button, input, summary')].filter(element =>
  !(element.textContent.trim() || element.getAttribute('aria-label') ||
    (element.id && document.querySelector(`label[for="${element.id}"]`)))
).map(element => element.outerHTML)"""
