"""The page in a real browser: it asks for nothing, fits a phone, and its buttons work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reporters.browsing import Tab, browser, tab
from reporters.pages import html_of
from reporters.samples import EVERYTHING

CHROMIUM = browser()

pytestmark = [
    pytest.mark.alone,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium or Chrome on this machine"),
]

PHONE, DESK = 360, 1100

both = pytest.mark.parametrize("name", ["everything", "attacked"])


@pytest.fixture(scope="module")
def chromium() -> Iterator[Tab]:
    assert CHROMIUM is not None
    with tab(CHROMIUM) as opened:
        yield opened


def opened(chromium: Tab, folder: Path, name: str, width: int) -> Path:
    file = folder / f"{name}.html"
    file.write_text(html_of(name), encoding="utf-8")
    chromium.open(file, width)
    return file


@both
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_nothing_is_requested_and_nothing_complains(
    chromium: Tab, tmp_path: Path, name: str, width: int
) -> None:
    file = opened(chromium, tmp_path, name, width)
    asked = {one["request"]["url"] for one in chromium.told("Network.requestWillBeSent")}
    assert asked <= {file.as_uri(), "data:,"}
    assert chromium.told("Log.entryAdded") == []
    assert chromium.told("Runtime.consoleAPICalled") == []
    assert chromium.told("Runtime.exceptionThrown") == []
    assert chromium.value("window.hacked") is None


@both
def test_no_page_is_wider_than_a_phone(chromium: Tab, tmp_path: Path, name: str) -> None:
    opened(chromium, tmp_path, name, PHONE)
    assert chromium.value("document.documentElement.scrollWidth") <= PHONE


@both
def test_on_paper_nothing_is_wider_than_the_sheet(chromium: Tab, tmp_path: Path, name: str) -> None:
    opened(chromium, tmp_path, name, 720)
    chromium.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert chromium.value("document.documentElement.scrollWidth") <= 720
        assert (
            chromium.value(
                "[...document.querySelectorAll('pre, .wide')]"
                ".filter(one => one.scrollWidth > one.clientWidth + 1).length"
            )
            == 0
        )
        assert (
            chromium.value("getComputedStyle(document.querySelector('button')).display") == "none"
        )
    finally:
        chromium.call("Emulation.setEmulatedMedia", media="")


def test_a_snippet_is_copied_by_its_button(chromium: Tab, tmp_path: Path) -> None:
    opened(chromium, tmp_path, "everything", DESK)
    chromium.call("Browser.grantPermissions", permissions=["clipboardReadWrite"])
    button = "document.querySelector('#changes .copy')"
    chromium.call("Page.bringToFront")
    chromium.value(f"{button}.click(), new Promise(done => setTimeout(done, 200))")
    assert chromium.value(f"{button}.textContent") == "Copied"
    assert chromium.value("navigator.clipboard.readText()") == EVERYTHING.findings[0].snippet


def test_without_a_clipboard_the_patch_is_copied_by_hand(chromium: Tab, tmp_path: Path) -> None:
    opened(chromium, tmp_path, "everything", DESK)
    chromium.call("Page.bringToFront")
    chromium.value("Object.defineProperty(navigator, 'clipboard', {value: undefined}), 1")
    chromium.value(
        "document.addEventListener('copy', () => {window.copied = document.activeElement.value}), 1"
    )
    button = "document.querySelector('#patch .copy')"
    chromium.value(f"{button}.click(), new Promise(done => setTimeout(done, 200))")
    assert EVERYTHING.patch is not None
    assert chromium.value("window.copied") == EVERYTHING.patch.diff
    assert chromium.value(f"{button}.textContent") == "Copied"


def test_the_theme_follows_the_system(chromium: Tab, tmp_path: Path) -> None:
    shade = "getComputedStyle(document.body).backgroundColor"
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    opened(chromium, tmp_path, "everything", DESK)
    light = chromium.value(shade)
    chromium.call("Emulation.setEmulatedMedia", media="", features=dark)
    try:
        assert chromium.value(shade) != light
    finally:
        chromium.call("Emulation.setEmulatedMedia", media="", features=[])


def test_no_figure_of_a_table_lies_on_another_on_a_phone(chromium: Tab, tmp_path: Path) -> None:
    opened(chromium, tmp_path, "everything", PHONE)
    overlapping = """[...document.querySelectorAll('.bars tr')].flatMap(row => {
        const boxes = [...row.querySelectorAll('.num')].map(one => {
            const text = document.createRange();
            text.selectNodeContents(one);
            return text.getBoundingClientRect();
        });
        return boxes.filter((box, at) => at && box.width && box.top < boxes[at - 1].bottom
            && box.left < boxes[at - 1].right);
    }).length"""
    assert chromium.value(overlapping) == 0


def test_on_a_tablet_no_word_of_the_trials_is_broken(chromium: Tab, tmp_path: Path) -> None:
    opened(chromium, tmp_path, "everything", 768)
    cells = "[...document.querySelectorAll('.trials tbody td:last-child')]"
    assert chromium.value(f"{cells}.filter(one => one.clientWidth < 90).length") == 0
    assert chromium.value("document.documentElement.scrollWidth") <= 768
