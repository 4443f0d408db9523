"""Places in the user's source, as short as they stay clear."""

from __future__ import annotations

import os.path
from collections.abc import Sequence

from trainperf.model import Function, Site
from trainperf.recording.cells import spot


def place(site: Site, cwd: str) -> str:
    """Return "file:line", the file relative to `cwd` where it stands beneath it."""
    return spot(_file(site.file, cwd), site.line)


def defined(function: Function, cwd: str) -> str:
    """Return where a function is defined; nothing if that is not known."""
    if not function.file:
        return ""
    return place(Site(function.file, function.line), cwd)


def places(sites: Sequence[Site], cwd: str, most: int = 3) -> str:
    """Return the first places, each once, and how many more there are."""
    told = []
    for site in sites:
        inside = f" in {site.function}" if site.function and site.function != "<module>" else ""
        told.append(place(site, cwd) + inside)
    told = list(dict.fromkeys(told))
    more = f" and {len(told) - most} more" if len(told) > most else ""
    return ", ".join(told[:most]) + more


def _file(file: str, cwd: str) -> str:
    if os.path.isabs(file) and cwd and file.startswith(cwd.rstrip("/") + "/"):
        return file[len(cwd.rstrip("/")) + 1 :]
    return file
