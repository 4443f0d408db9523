"""Which files are read, and how: nothing here may end the whole run."""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainperf.recording.cells import is_notebook
from trainperf.source.notebooks.notebook import NotANotebook, Notebook

SKIPPED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
"""Folders that hold no source of the project's own, besides the hidden ones."""
LARGEST = 2_000_000
"""Bytes above which a file is taken for data, not for source."""
_FRAMEWORKS = (b"torch", b"tensorflow", b"keras")


class Unreadable(Exception):  # noqa: N818 - names an outcome; the message is the reason
    """A file that cannot be read, with the reason."""


@dataclass(frozen=True)
class Source:
    """The text of a file, its line ends "\\n"; that of a `notebook`, see `recording.cells`."""

    text: str
    notebook: Notebook | None = None


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that are named, and those in the folders that are, each once.

    In folders: `.py` and `.ipynb`; not in hidden folders, `SKIPPED`, or environments.
    Links to folders are not followed.
    """
    seen: set[str] = set()
    for path in paths:
        for each in _in_folder(path) if path.is_dir() else (path,):
            name = os.path.abspath(each)
            if name not in seen:
                seen.add(name)
                yield each


def _in_folder(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(
            each
            for each in folders
            if each not in SKIPPED
            and not each.startswith(".")
            and not os.path.exists(os.path.join(here, each, "pyvenv.cfg"))
        )
        for name in sorted(names):
            path = Path(here, name)
            if name.endswith((".py", ".ipynb")) and not name.startswith(".") and path.is_file():
                yield path


def read(path: Path) -> Source | None:
    """Return the source of a file; None where no framework is named in it.

    Raises `Unreadable`.
    """
    if not path.is_file() and path.exists():  # a pipe would be waited for
        raise Unreadable("is no regular file")
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1) if not is_notebook(path.name) else file.read()
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    if not any(word in data for word in _FRAMEWORKS):
        return None
    if is_notebook(path.name):
        return _notebook(data)
    if len(data) > LARGEST:
        raise Unreadable(f"larger than {LARGEST // 1_000_000} MB")
    return Source(_text(data))


def _text(data: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise Unreadable(f"not text: {error}") from error


def _notebook(data: bytes) -> Source:
    try:
        notebook = Notebook(data)
    except NotANotebook as error:
        raise Unreadable(str(error)) from error
    return Source(notebook.text, notebook)
