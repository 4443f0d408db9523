"""One setting changed in a JSON or YAML file, all else of its text as it was."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.rewrite.diff import unified

VALUE = r'(?:"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)'
"""A value of JSON that is neither a list nor an object."""

PLAIN = r"""(?:"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'|[^\s#{\[|>&*"'][^\r\n]*?)"""
"""A value of YAML on the line of its name, but lists, objects, blocks, anchors and aliases."""

END = r"(?=[ \t]*(?:[ \t]#[^\r\n]*)?\r?(?:\Z|\n(?![ \t]+[^\s#])))"
"""The end of such a line, behind which the value does not go on."""


def line_of(path: str, name: str, value: object) -> str:
    """Return a setting as it stands in a file of that name."""
    said = json.dumps(value)
    return f"{json.dumps(name)}: {said}" if path.endswith(".json") else f"{name}: {said}"


@dataclass(frozen=True)
class Configuration:
    """A file of settings: its name, its bytes as they were, and its text now."""

    name: str
    path: str
    data: bytes
    text: str

    @classmethod
    def of(cls, name: str, path: str, data: bytes) -> Configuration:
        """Return a file as it is; raises `CannotRewrite` for one that is no UTF-8."""
        return cls(name, path, data, decoded(name, data))

    @property
    def before(self) -> str:
        """Its text as it was."""
        return self.data.decode()

    def content(self) -> bytes:
        """Return its bytes now."""
        return self.text.encode()

    def diff(self) -> str:
        """Return its change as a unified diff."""
        return unified(self.name, self.before, self.text)

    shown = diff

    def with_setting(self, name: str, value: object) -> Configuration:
        """Return it with one of its outermost settings changed, or added.

        Raises `CannotRewrite` where that is not one plain place of the text.
        """
        change = _in_json if self.path.endswith(".json") else _in_yaml
        text = change(self.name, self.text, name, value)
        return Configuration(self.name, self.path, self.data, text)


def decoded(name: str, data: bytes) -> str:
    """Return the text of a file of settings; raises `CannotRewrite` if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CannotRewrite(f"{name} is not in UTF-8") from error


def _in_json(file: str, text: str, name: str, value: object) -> str:
    before = _read(file, text)
    said = line_of(".json", name, value)
    found = re.findall(rf"{re.escape(json.dumps(name))}\s*:\s*{VALUE}", text)
    if name in before:
        if len(found) != 1:
            raise CannotRewrite(
                f"{file} names {name} in several places, or gives it no plain value"
            )
        after = text.replace(found[0], said)
    else:
        opening = re.match(r"\s*\{(\s*)", text)
        assert opening is not None
        gap = opening[1] if before else ""
        after = f"{text[: opening.end()]}{said}{',' if before else ''}{gap}{text[opening.end() :]}"
    if _read(file, after) != {**before, name: value}:
        raise CannotRewrite(f"{name} cannot be set in {file} without a change of something else")
    return after


def _read(file: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CannotRewrite(f"{file} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CannotRewrite(f"{file} holds no settings by name")
    return found


def _in_yaml(file: str, text: str, name: str, value: object) -> str:
    """Change the one line of a name that stands at the margin; add one in front of the first."""
    pattern = re.compile(rf"^{re.escape(name)}:[ \t]+{PLAIN}{END}", re.MULTILINE)
    found = list(pattern.finditer(text))
    if len(found) != len(re.findall(rf"^{re.escape(name)}\s*:", text, re.MULTILINE)):
        raise CannotRewrite(f"{file} has no plain value for {name}")
    if len(found) > 1:
        raise CannotRewrite(f"{file} names {name} in several places")
    said = line_of(".yaml", name, value)
    if found:
        return text[: found[0].start()] + said + text[found[0].end() :]
    first = re.search(r"^[A-Za-z_]\w*:", text, re.MULTILINE)
    if first is None:
        raise CannotRewrite(f"{file} holds no settings by name")
    return f"{text[: first.start()]}{said}\n{text[first.start() :]}"
