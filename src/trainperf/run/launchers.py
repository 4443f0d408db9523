"""The commands that start the ranks of a job: their arguments, read and written. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
ACCELERATE = ("accelerate", "accelerate-launch", "accelerate.commands.launch")
MPIRUN = ("mpirun", "mpiexec", "orterun", "mpiexec.hydra")
FLAGS_BEFORE_THE_SCRIPT = ("-m", "--module", "--no-python", "--no_python")

Command = tuple[str, ...]

_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python's own that take a word more."""

_PROGRAM = re.compile(r"-[bBdEhiIOPqRsSuvVx?]*([mc])(.*)", re.DOTALL)
"""`-m` and `-c`, alone or behind other options (`-um`), with their word or before it."""


@dataclass(frozen=True)
class Program:
    """The program that an interpreter is given; its arguments begin at `at`."""

    kind: Literal["script", "module", "code"]
    name: str
    at: int


def after(command: Sequence[str], launchers: Sequence[str]) -> int | None:
    """Where in a command the arguments of a launcher begin; None if it has none of them."""
    for index, word in enumerate(command):
        if os.path.basename(word) in launchers:
            return index + 1
    return None


def accelerate(command: Sequence[str]) -> int | None:
    """Where the arguments of `accelerate launch` begin; None for another command."""
    at = after(command, ACCELERATE)
    if at is None or os.path.basename(command[at - 1]) != ACCELERATE[0]:
        return at
    return at + 1 if tuple(command[at : at + 1]) == ("launch",) else None


def options(command: Sequence[str], at: int) -> Sequence[str]:
    """A launcher's own arguments, which begin at `at`: those before what it starts."""
    for index in range(at, len(command)):
        word = command[index]
        if word.endswith(".py") or os.path.basename(word).startswith("python"):
            return command[at:index]
        following = command[index + 1] if index + 1 < len(command) else ""
        if word in FLAGS_BEFORE_THE_SCRIPT and not following.startswith("-"):
            return command[at:index]
    return command[at:]


def value(command: Sequence[str], at: int, names: Sequence[str]) -> str | None:
    """The value of a launcher's option, `--name value` or `--name=value`; None if not given."""
    own = options(command, at)
    for index, word in enumerate(own):
        name, equals, given = word.partition("=")
        if name in names:
            if equals:
                return given
            return own[index + 1] if index + 1 < len(own) else None
    return None


def replaced(command: Command, at: int, names: Sequence[str], value: str) -> Command:
    """The command with another value of an option that the launcher is given."""
    made = list(command)
    end = at + len(options(command, at))
    for index in range(at, end):
        name, equals, _ = command[index].partition("=")
        if name in names and equals:
            made[index] = f"{name}={value}"
        elif name in names and index + 1 < end:
            made[index + 1] = value
    return tuple(made)


def program(words: Sequence[str]) -> Program | None:
    """The program in a command line whose first word is an interpreter; None if it has none."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if found := _PROGRAM.fullmatch(words[at]):
            kind: Literal["module", "code"] = "module" if found[1] == "m" else "code"
            if found[2]:
                return Program(kind, found[2], at + 1)
            return Program(kind, words[at + 1], at + 2) if at + 1 < len(words) else None
        at += 2 if words[at] in _WITH_VALUE else 1
    if at >= len(words) or words[at] == "-":
        return None
    return Program("script", words[at], at + 1)
