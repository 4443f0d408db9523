"""An HTML page taken apart, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser

from reporters.samples import NASTY, SAMPLES, poisoned
from trainperf.reporters.html import render

VOID = {"meta", "link", "br"}
"""Elements of HTML that have no end."""

SHAPES = {"rect", "line", "circle", "path"}
"""Elements of SVG that end by themselves here."""

ATTACKS = (
    '</script><script>window.hacked = 1</script><img src="https://evil.invalid/x.png">',
    "\"'><svg onload=alert(1)><style>@import url(//evil.invalid/a.css)</style>",
    "--></title></style></textarea></pre></code><!-- {{ 7 * 7 }} {% raw %} ${7*7}",
    f"{NASTY} \u200f\u202eevil\u2066 \x00 \x85 javascript:alert(1) &lt;b&gt; &#x3c;",
    "x" * 10_000,
)
"""Each breaks out of another place of a page, turns its text around, or makes it wide."""

BAD = " ".join(ATTACKS)
ALL = {**SAMPLES, "attacked": poisoned(SAMPLES["everything"], BAD)}


@dataclass
class Element:
    """A start tag, and all the text up to its end."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """The contents of a page. `wrong` names tags that do not match."""

    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))
        if len(dict(attrs)) < len(attrs):
            self.wrong.append(f"{tag} has an attribute twice")
        if tag not in VOID:
            self.open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))
        if tag not in SHAPES:
            self.wrong.append(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1].tag != tag:
            self.wrong.append(f"</{tag}> within {[one.tag for one in self.open]}")
            return
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
        for element in self.open:
            element.text += data

    def named(self, tag: str) -> list[Element]:
        """The elements of a name."""
        return [element for element in self.elements if element.tag == tag]

    def at(self, name: str) -> Element:
        """The element with an id."""
        (found,) = [one for one in self.elements if one.attributes.get("id") == name]
        return found

    @property
    def ids(self) -> list[str]:
        """All ids, in order."""
        return [str(one.attributes["id"]) for one in self.elements if "id" in one.attributes]

    @property
    def words(self) -> str:
        """The text that a reader sees, its white space as single blanks."""
        hidden = "".join(one.text for tag in ("style", "script") for one in self.named(tag))
        text = self.text
        for tag in ("style", "script"):
            for one in self.named(tag):
                text = text.replace(one.text, " ")
        assert hidden
        return " ".join(text.replace("\u00a0", " ").split())


def parsed(html: str) -> Page:
    """The page that this is."""
    page = Page()
    page.feed(html)
    page.close()
    return page


@cache
def html_of(name: str) -> str:
    """The page of a sample."""
    return render(ALL[name])


@cache
def page_of(name: str) -> Page:
    """The page of a sample, taken apart."""
    return parsed(html_of(name))
