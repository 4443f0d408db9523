"""A command line of Python's: which of its words are its own, and which are the program's. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python's own that take a word more."""

PROGRAM = re.compile(r"-[bBdEhiIOPqRsSuvVx?]*([mc])(.*)", re.DOTALL)
"""`-m` and `-c`, alone or behind other options (`-um`), with their word or before it."""


@dataclass(frozen=True)
class Program:
    """The program that an interpreter is given; its arguments begin at `at`."""

    kind: Literal["script", "module", "code"]
    name: str
    at: int


def program(words: Sequence[str]) -> Program | None:
    """The program in a command line whose first word is an interpreter; None if it has none."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if found := PROGRAM.fullmatch(words[at]):
            kind: Literal["module", "code"] = "module" if found[1] == "m" else "code"
            if found[2]:
                return Program(kind, found[2], at + 1)
            return Program(kind, words[at + 1], at + 2) if at + 1 < len(words) else None
        at += 2 if words[at] in WITH_VALUE else 1
    if at >= len(words) or words[at] == "-":
        return None
    return Program("script", words[at], at + 1)
