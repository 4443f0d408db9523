"""Pack a source folder for the container: the code, not what lies about it."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from trainperf.errors import TrainperfError

LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints", ".mypy_cache", ".ruff_cache",
     ".pytest_cache", ".tox", ".nox", ".idea", ".vscode", ".venv", "venv", "node_modules",
     "wandb", "mlruns", "lightning_logs", ".aws", ".ssh"}
)  # fmt: skip
"""Folders that hold no source, or secrets, by name."""

LEFT_OUT_FILES = (
    "*.pyc", "*.pyo", ".DS_Store", ".env", ".env.*", "*.swp", "*.pem", "*.key", "id_rsa*",
    "id_ed25519*", ".netrc", ".pypirc", ".git-credentials", "kaggle.json",
)  # fmt: skip

LARGEST_FILE = 50 * 1024**2
LARGEST = 500 * 1024**2
"""Bytes of one file and of all together; data belongs into an input channel."""


@dataclass(frozen=True)
class Packed:
    """An archive as bytes; `left_out` names what was left out for its size."""

    data: bytes
    files: int
    left_out: tuple[str, ...]


def relative_script(script: Path, folder: Path) -> str:
    """The script's path inside the source folder; raises `TrainperfError` if it is not there."""
    if not folder.is_dir():
        raise TrainperfError(f"--source-dir {folder}: there is no such folder", "check the path")
    whole = script if script.is_absolute() or script.exists() else folder / script
    try:
        return whole.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        text = f"{script} is not inside the source folder {folder}"
        hint = "name the folder that holds the script and what it imports: --source-dir DIR"
        raise TrainperfError(text, hint) from None


def pack(folder: Path, script: str) -> Packed:
    """Pack what is below `folder`; `script` must be among it.

    Left out are version control, caches, virtual environments, links that lead out of the folder,
    what git ignores in it, and files larger than 50 MiB, which are named. Raises `TrainperfError`
    where too much remains, a file cannot be read, or the script is in a folder that is left out.
    """
    left_out, names, total = list[str](), list[str](), 0
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
        for path in _files(folder, script):
            name = path.relative_to(folder).as_posix()
            try:
                size = path.stat().st_size
                if size > LARGEST_FILE and name != script:
                    left_out.append(f"{name} ({size / 1024**2:,.0f} MiB)")
                    continue
                total += size
                if total > LARGEST:
                    text = f"{folder} holds more than {LARGEST // 1024**2} MiB to pack"
                    hint = "name the folder of the code with --source-dir; give data by --input"
                    raise TrainperfError(text, hint)
                tar.add(path.resolve(), name, recursive=False)
            except OSError as error:
                text = f"{path} cannot be packed: {error.strerror or error}"
                hint = "let it be read, or have .gitignore name it"
                raise TrainperfError(text, hint) from error
            names.append(name)
    if script not in names:
        text = f"{script} lies in a folder that is left out of what is packed"
        raise TrainperfError(text, "name that folder with --source-dir")
    return Packed(buffer.getvalue(), len(names), tuple(left_out))


def _files(folder: Path, script: str) -> Iterator[Path]:
    root, words = folder.resolve(), ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    known: set[str] | None = None  # outside of git's trees, and without git
    with suppress(OSError):
        done = subprocess.run(("git", *words), cwd=folder, capture_output=True)
        known = None if done.returncode else set(os.fsdecode(done.stdout).split("\0"))
    for here, folders, names in os.walk(folder):
        inside = Path(here)
        folders[:] = sorted(
            name
            for name in folders
            if name not in LEFT_OUT and not (inside / name / "pyvenv.cfg").exists()
        )
        for path in (inside / name for name in sorted(names)):
            relative = path.relative_to(folder).as_posix()
            unwanted = any(fnmatch(path.name, pattern) for pattern in LEFT_OUT_FILES)
            ignored = known is not None and relative not in known
            within = path.is_file() and path.resolve().is_relative_to(root)
            if within and (relative == script or not (unwanted or ignored)):
                yield path
