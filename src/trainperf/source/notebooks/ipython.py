"""Commands to IPython in cells, as Python that does the same, or nothing."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Mapping

_ASSIGNED = re.compile(r"^(\s*[\w, ]+=\s*)[!%](?!=)")
_HELP = re.compile(r"^\s*[\w.]+\?\??\s*$")
_TIMED = re.compile(r"^(\s*)%time +(\S.*)$")
_ENV = re.compile(r"^%(?:set_)?env\s+(\w+)[=\s]\s*(.*)$")
_FOLDER = re.compile(r"^%cd\s+([^\s-].*)$")
_UNMARKED = re.compile(r"^(?:cat|cd|conda|cp|ls|mkdir|mv|pip|pwd|rm)\s+[^\s=(,:\[]")
"""Magics that are known without their `%`, where the line is no Python."""
_MAGIC = re.compile(r"^%(\w+)")
_FUTURE = re.compile(r"^from __future__ import (?!.*\bannotations\b)")
_WITHOUT_EFFECT = frozenset(
    {"autoreload", "config", "load_ext", "matplotlib", "reload_ext", "tensorflow_version"}
)
"""Line magics that change nothing of what a script computes."""
_WHOLE = re.compile(r"^%%(time|capture|trainperf)\b")
"""Cell magics whose cell is Python that is to be run as it is."""
_TIMES = "  # %time"
_IDLE = "pass  # "


def as_python(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the code that runs for a cell, line by line, and the commands that are left out."""
    margin = _margin(text)
    lines = [line.removeprefix(margin) for line in text.split("\n")]
    first = next(number for number, line in enumerate(lines) if line.strip())
    if lines[first].startswith("%%"):
        if not _WHOLE.match(lines[first]):  # another language, or measured
            return "\n".join(f"# {line}" for line in lines), (lines[first].strip(),)
        lines[first] = f"#{lines[first]}"
    lines = [f"# {line}" if _FUTURE.match(line) else line for line in lines]
    left_out: list[str] = []
    while (number := _stumbles(lines)) is not None:
        goes_on = lines[number].endswith("\\")
        lines[number], unknown = _instead(lines[number])
        left_out += [unknown] if unknown else []
        while goes_on and number + 1 < len(lines):
            number += 1
            goes_on = lines[number].endswith("\\")
            lines[number] = f"# {lines[number]}"
    return "\n".join(lines), tuple(left_out)


def _margin(text: str) -> str:
    """Return the indentation of a cell's first line, which IPython takes from all of them."""
    first = next(line for line in text.split("\n") if line.strip())
    return first[: len(first) - len(first.lstrip())]


def _stumbles(lines: list[str]) -> int | None:
    """Return the first line that is a command to IPython, and no part of a formula or string."""
    commands = [number for number, line in enumerate(lines) if _is_command(line)]
    if not commands:
        return None
    try:
        parse("\n".join(lines))
    except SyntaxError as error:
        at = (error.lineno or 0) - 1
        return at if at in commands else commands[0]
    except (ValueError, RecursionError, MemoryError):
        return None
    return None


def _is_command(line: str) -> bool:
    bare = line.lstrip()
    found = _ASSIGNED.match(line) or _HELP.match(line) or _UNMARKED.match(line)
    return bare.startswith(("%", "!", "?")) or bool(found)


def _instead(line: str) -> tuple[str, str]:
    """Return what runs in place of a command, and the command if it is not done."""
    bare = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    if assigned := _ASSIGNED.match(line):
        return f"{assigned[1]}[]  # {bare}", bare
    if timed := _TIMED.match(line):
        return f"{timed[1]}{timed[2]}{_TIMES}", ""
    marked = f"%{bare}" if _UNMARKED.match(bare) else bare
    if found := _ENV.match(marked):
        done = f'__import__("os").environ[{found[1]!r}] = {found[2]!r}'
        return f"{indent}{done}  # {bare}", ""
    if found := _FOLDER.match(marked):
        return f'{indent}__import__("os").chdir({os.path.expanduser(found[1])!r})  # {bare}', ""
    magic = _MAGIC.match(bare)
    known = _HELP.match(bare) or bare.startswith("?") or (magic and magic[1] in _WITHOUT_EFFECT)
    idle = f"{indent}{_IDLE}" if indent else "# "  # imports go on after a comment
    return idle + bare, "" if known else bare


def as_written(code: str, before: str, source: str) -> str:
    """Return edited code of a cell with its commands to IPython.

    `before` is the code of `source` until then. Raises `ValueError` where a command is changed.
    """
    pairs = zip(before.split("\n"), source.split("\n"), strict=True)
    commands = {code.strip(): own.strip() for code, own in pairs if code != own}
    lines, margin = code.split("\n"), _margin(source)
    typed = [_as_typed(line, commands) for line in lines]
    written = "\n".join(f"{margin}{line}" if line.strip() else line for line in typed)
    there = {line.strip() for line in lines if not line.endswith(_TIMES)}
    gone = [each for each in commands if each not in there and not each.endswith(_TIMES)]
    if gone or _bare(as_python(written)[0]) != _bare(code):
        raise ValueError("the edit changes a command to IPython")
    return written


def _bare(code: str) -> list[str]:
    return [line.replace(_IDLE, "# ", 1) for line in code.split("\n")]


def _as_typed(line: str, commands: Mapping[str, str]) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    if line.strip() in commands:
        return indent + commands[line.strip()]
    bare = line.strip().removesuffix(_TIMES)
    if bare == line.strip():
        return line
    try:
        parse(bare)
    except SyntaxError as error:
        raise ValueError("the edit makes a command to IPython longer than its line") from error
    return f"{indent}%time {bare}"


def parse(text: str) -> ast.Module:
    """Parse the code of cells, in which `await` may stand outside of functions."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are for others to say
        parsed = compile(text, "<notebook>", "exec", flags, dont_inherit=True)
    assert isinstance(parsed, ast.Module)
    return parsed
