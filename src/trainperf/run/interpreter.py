"""The Python that runs the script: that of the user's environment, not that of trainperf.

trainperf may be installed in an environment of its own (`pipx`, `uv tool`, `uvx`), which has no
framework. What observes the script needs the standard library only.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from trainperf.errors import TrainperfError

FRAMEWORKS = frozenset({"torch", "tensorflow", "keras", "lightning", "pytorch_lightning"})
OLDEST = (3, 11)
ASKED_S = 20.0
"""So long an interpreter may take to say what it is; on a network file system it can be slow."""


@dataclass(frozen=True)
class Interpreter:
    """A Python, and why it was taken: "" for trainperf's own."""

    path: str
    why: str = ""

    @property
    def prefix(self) -> Path:
        """The folder of its environment."""
        return Path(self.path).parent.parent

    def has(self, module: str) -> bool:
        """Whether it finds a module. It is asked where its environment has no folder of that name:
        what a `.pth` file names, or the system's packages, lies elsewhere.
        """
        if not self.why:
            return util.find_spec(module) is not None
        folders = self.prefix.glob("lib*/python3*/*-packages")
        if any((folder / module).is_dir() for folder in folders):
            return True
        code = f"from importlib import util; print(util.find_spec({module!r}) is not None)"
        return _said(self.path, "-P", "-c", code) == "True"


def interpreter_for(
    script: Path | None, given: Path | None, cwd: Path, environment: Mapping[str, str]
) -> tuple[Interpreter, str]:
    """Return the Python for a script, and a sentence on what it lacks ("" if nothing).

    `given` is one that was asked for, or the folder of its environment. Else it is the first of the
    active environment (`VIRTUAL_ENV`, `CONDA_PREFIX`), a `.venv` beside the script or in the
    working folder, and trainperf's own, that has the frameworks that the script imports. Raises
    `TrainperfError` where it is none, or too old.
    """
    own = Interpreter(sys.executable)
    found = [*_around(script, cwd, environment), own]
    wanted = sorted(frameworks_of(script)) if script is not None else []
    if given is not None:
        chosen = Interpreter(_executable(given, cwd), "as you asked")
        chosen = own if chosen.prefix == own.prefix else chosen
        passed, missing = [], [module for module in wanted if not chosen.has(module)]
    else:
        lacks = {one.path: [name for name in wanted if not one.has(name)] for one in found}
        chosen = next((one for one in found if not lacks[one.path]), found[0])
        passed, missing = found[: found.index(chosen)], lacks[chosen.path]
    if chosen.why:
        _check(chosen.path)
    if missing:
        others = [one.path for one in found if one != chosen and all(map(one.has, wanted))]
        looked = [one.path for one in found if one != chosen]
        nobody = f"nor has {' or '.join(looked)}" if looked else "no other environment was found"
        where = f"{', '.join(others)} has" if others else nobody
        return chosen, f"{chosen.path} has no {' and '.join(missing)}; {where}: --python PATH"
    if passed:
        lacking = f"{passed[0].path} has no {' or '.join(wanted)}"
        why = f"{chosen.why or 'it is trainperf’s own'}; {lacking}"
        return Interpreter(chosen.path, why), ""
    return chosen, ""


def frameworks_of(script: Path) -> frozenset[str]:
    """The frameworks that a script imports by name; none of what cannot be read as Python."""
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, ValueError, SyntaxError):
        return frozenset()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return FRAMEWORKS & names


def _around(
    script: Path | None, cwd: Path, environment: Mapping[str, str]
) -> Iterator[Interpreter]:
    """The environments of the user, each once, those that are active first."""
    beside = script.absolute().parent if script is not None else cwd
    places: list[tuple[str | Path, str]] = [
        (environment.get("VIRTUAL_ENV", ""), "VIRTUAL_ENV names it"),
        (environment.get("CONDA_PREFIX", ""), "CONDA_PREFIX names it"),
        (beside / ".venv", "the .venv beside the script"),
        (cwd / ".venv", "the .venv of the working folder"),
    ]
    seen = set[str]()
    for place, why in places:
        python = Path(place, "bin", "python")
        prefix = os.path.realpath(os.fspath(place))
        if place and prefix not in seen and os.access(python, os.X_OK):
            seen.add(prefix)
            own = prefix == os.path.realpath(sys.prefix)
            yield Interpreter(sys.executable if own else str(python), "" if own else why)


def _executable(given: Path, cwd: Path) -> str:
    for path in (cwd / given / "bin" / "python", cwd / given):
        if path.is_file() and os.access(path, os.X_OK):
            return os.path.abspath(path)
    found = shutil.which(str(given)) if os.sep not in str(given) else None
    if found is None:
        raise TrainperfError(
            f"there is no interpreter {given}", "name one, or its environment, such as .venv"
        )
    return found


def _check(python: str) -> None:
    """Raise `TrainperfError` where it cannot be observed."""
    words = _said(python, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2])").split()
    if len(words) != len(OLDEST) or not all(word.isdigit() for word in words):
        raise TrainperfError(f"{python} is no Python that runs", "name one with --python PATH")
    if tuple(map(int, words)) < OLDEST:
        raise TrainperfError(
            f"{python} is Python {'.'.join(words)}", "trainperf observes Python 3.11 and later"
        )


def _said(*command: str) -> str:
    """What a command prints; nothing where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASKED_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
