"""The names of files that C code reads: in tf.data chains, in datasets, in open descriptors."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

LIBRARY = os.path.dirname(os.__file__) + os.sep
NOT_DATA = (LIBRARY, "/proc/", "/sys/", "/dev/", "/etc/", "/usr/lib", "/usr/share/", "/usr/bin/")
PROGRAMS = (".py", ".pyc", ".pyi", ".so", ".pth", ".cubin", ".o")
PACKAGES = ("/site-packages/", "/dist-packages/")

MOST_NAMES = 20_000
"""Names looked at in one chain or list."""
MOST_SIZES = 200
SIZES_S = 0.1
"""Seconds for the sizes of a few files, which may be gone when the script has ended."""
LOOKED_AT = 20
"""So many of them must be files, for all to be taken for files."""


def is_data(path: str, folder: str) -> bool:
    """Whether a path may be one of training data; those in `folder` are trainperf's own."""
    if path.endswith(PROGRAMS) or path.startswith(folder + os.sep):
        return False
    if path.startswith(NOT_DATA):
        return path.startswith("/dev/shm/")
    return not any(part in path for part in PACKAGES)


def of_dataset(dataset: Any) -> list[str]:
    """Names of files that a dataset was made from; empty if there is none."""
    try:
        if dataset is None:
            return []
        found = _in_chain(dataset) if hasattr(dataset, "element_spec") else _in_lists(dataset)
        paths = [path for names in found for path in _files(names)]
        return list(dict.fromkeys(paths))
    except Exception:
        return []


def _in_chain(dataset: Any) -> Iterator[list[str]]:
    """Strings that a tf.data chain begins with, tensor by tensor of its sources."""
    pending, seen = [dataset], set()
    while pending:
        node = pending.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        pending += node._inputs()
        for name in ("_filenames", "_tensors", "_tensor"):
            held = getattr(node, name, None)
            for one in held if isinstance(held, (list, tuple)) else [held]:
                if hasattr(one, "element_spec"):
                    pending.append(one)  # file names may come as a dataset
                elif getattr(getattr(one, "dtype", None), "name", "") == "string":
                    tensor: Any = one
                    values = tensor.numpy().reshape(-1)[:MOST_NAMES]
                    yield [os.fsdecode(value) for value in values]


def _in_lists(loader: Any) -> Iterator[list[str]]:
    """Strings in the lists that the dataset of a `DataLoader` holds, list by list."""
    dataset: Any = getattr(loader, "dataset", loader)
    for _ in range(5):  # Subset and the like stand around the one that has the files
        inner = getattr(dataset, "dataset", None)
        if inner is None:
            break
        dataset = inner
    for value in list(vars(dataset).values()):
        if not isinstance(value, (list, tuple)):
            continue
        firsts = [one[0] if isinstance(one, tuple) and one else one for one in value[:MOST_NAMES]]
        if all(isinstance(one, (str, os.PathLike)) for one in firsts):
            yield [os.fspath(one) for one in firsts]


def _files(names: list[str]) -> list[str]:
    """Absolute paths of names; none unless those looked at, spread over them, are files."""
    paths = list(dict.fromkeys(os.path.abspath(name) for name in names if "://" not in name))
    step = max(1, len(paths) // LOOKED_AT)
    return paths if all(os.path.isfile(path) for path in paths[::step]) else []


def sizes(paths: list[str]) -> dict[str, int]:
    """Sizes of some of the files, in bytes: of those spread evenly over the list."""
    found = {}
    until = time.monotonic() + SIZES_S
    for path in paths[:: max(1, len(paths) // MOST_SIZES)]:
        if time.monotonic() > until:
            break
        try:
            found[path] = os.stat(path).st_size
        except OSError:
            continue
    return found


def held(folder: str) -> list[str]:
    """Files that this process holds open for reading, or mapped: what it may read unseen."""
    found: dict[str, None] = {}
    until = time.monotonic() + SIZES_S
    try:
        for name in os.listdir("/proc/self/fd"):
            if time.monotonic() > until:  # some hold ten thousands open
                break
            path = _open_to_read(name)
            if path and is_data(path, folder):
                found[path] = None
        found.update(dict.fromkeys(_mapped(folder)))
    except OSError:
        pass
    return [path for path in found if os.path.isfile(path)]


def _open_to_read(name: str) -> str:
    try:
        path = os.readlink(f"/proc/self/fd/{name}")
        if not path.startswith("/"):
            return ""
        with open(f"/proc/self/fdinfo/{name}", encoding="ascii") as file:
            flags = next(int(row.split()[1], 8) for row in file if row.startswith("flags"))
        return "" if flags & os.O_WRONLY else path
    except (OSError, ValueError, StopIteration):
        return ""


def _mapped(folder: str) -> list[str]:
    code: set[str] = set()
    data: dict[str, None] = {}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for row in file:
            parts = row.rstrip("\n").split(maxsplit=5)
            if len(parts) < 6 or not parts[5].startswith("/"):
                continue
            path = parts[5]
            if "x" in parts[1]:
                code.add(path)
            elif is_data(path, folder):
                data[path] = None
    return [path for path in data if path not in code]
