"""Where a running job is, by stacks that py-spy reads from outside; the job is not stopped."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trainperf.model.basics import Site
from trainperf.model.running import SampledPlace, SampledStacks

SAMPLES = 20
EVERY_S = 0.2
LIMIT_S = 5.0
"""A dump takes a tenth of a second; one that takes longer is given up."""
PATIENCE = 3
"""So many dumps that fail before one has succeeded, and there are no stacks."""
LIBRARIES = ("site-packages", "dist-packages")

Frame = Mapping[str, Any]
"""`name`, `filename` and `line`, as in the JSON of `py-spy dump`."""


def sample(
    py_spy: str, pid: int, folders: Sequence[str], samples: int = SAMPLES, every_s: float = EVERY_S
) -> SampledStacks | str:
    """Take stacks of the main thread of `pid`, or say why that could not be done.

    The user's own files are those in `folders`.
    """
    seen: Counter[tuple[Site | None, str]] = Counter()
    began, why = time.monotonic(), ""
    for number in range(samples):
        frames, why = _dump(py_spy, pid)
        if frames:
            seen[_place(frames, folders)] += 1
        elif not seen and number + 1 >= PATIENCE:
            break
        time.sleep(every_s)
    taken = sum(seen.values())
    if not taken:
        return why or "py-spy gave no stack"
    places = [SampledPlace(many / taken, *where) for where, many in seen.most_common()]
    return SampledStacks(pid, taken, time.monotonic() - began, tuple(places))


def _dump(py_spy: str, pid: int) -> tuple[Sequence[Frame], str]:
    command = (py_spy, "dump", "--pid", str(pid), "--json", "--nonblocking")
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            text=True,
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return (), f"py-spy could not be run: {error}"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["without a word"]
        return (), f"py-spy failed: {lines[0].removeprefix('Error: ')}"
    try:
        threads = json.loads(done.stdout)
        main = next((one for one in threads if one.get("os_thread_id") == pid), None)
        main = main or next(one for one in threads if one.get("thread_name") == "MainThread")
        return main["frames"], ""
    except (ValueError, KeyError, AttributeError, StopIteration):
        return (), "py-spy gave no main thread"


def _place(frames: Sequence[Frame], folders: Sequence[str]) -> tuple[Site | None, str]:
    """The innermost line of the user's, and the innermost function of all."""
    own = next((one for one in frames if _is_users(str(one["filename"]), folders)), None)
    site = None
    if own is not None:
        site = Site(str(own["filename"]), int(own["line"]), str(own["name"]))
    inner = frames[0]
    return site, str(inner["name"]) if inner is not own else ""


def _is_users(file: str, folders: Sequence[str]) -> bool:
    parts = file.split(os.sep)
    if any(one in parts for one in LIBRARIES):
        return False
    return any(file.startswith(one.rstrip(os.sep) + os.sep) for one in folders)
