"""The files that a training loop reads, as this process and its workers open them.

Python says so itself: each `open` of a file raises an audit event, in `io`, `os`, NumPy
and PIL alike. What C code opens raises none; `names` finds the names of such files.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ..process.process import Attempt, Process

NOT_READ = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECTORY
MOST_PATHS = 2_000
"""So many paths are named to trainperf; the rest are counted."""
MOST_KNOWN = 100_000
"""So many different paths are told apart, some 15 MB of memory; the count then says "at least"."""
FLUSH_EVERY_S = 0.1

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_NOT_DATA = (_LIBRARY, "/proc/", "/sys/", "/dev/", "/etc/", "/usr/lib", "/usr/share/", "/usr/bin/")
_PROGRAMS = (".py", ".pyc", ".pyi", ".so", ".pth", ".cubin", ".o")
_PACKAGES = ("/site-packages/", "/dist-packages/")

_MOST_NAMES = 20_000
"""Names looked at in one chain or list."""
_MOST_SIZES = 200
_SIZES_S = 0.1
"""Seconds for the sizes of a few files, which may be gone when the script has ended."""
_LOOKED_AT = 20
"""So many of them must be files, for all to be taken for files."""


class FileReads:
    """Counts the files this process opens to read while its loop is timed.

    A worker, which records nothing else, appends its counts to a file in the run's
    folder, from which the process that trains takes them at the end. A leg of a trial counts none.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._folder = process.settings["folder"]
        self._leg = process.settings.get("leg") is not None
        self._parent = 0  # of a worker: who trains
        self._on = self._hooked = self._closed = False
        self._window: tuple[float, int, int, int] | None = None
        self._forget()

    def _forget(self) -> None:
        self._known: dict[str, bool] = {}
        self._paths: list[str] = []
        self._files = self._sent = self._opens = 0
        self._flushed = self._began = time.monotonic()
        self._created = self._ends = False

    def install(self) -> None:
        """Ask Python to say which files it opens; nothing is counted yet."""
        if not self._hooked and not self._leg:
            self._hooked = True
            with suppress(Exception):  # a hook of the program's forbids it: no open is counted
                sys.addaudithook(self._hook())

    def begin(self) -> None:
        """A loop is about to be timed in this process: count from now on."""
        self._parent = 0
        self._forget()
        self._window = None
        self._on, self._closed = not self._leg, False

    def serve(self, parent: int) -> None:
        """Count for the process `parent`, which trains."""
        self._parent = parent
        self._forget()
        self._on = not self._closed

    def mark(self) -> None:
        """A block of the loop begins; what is read from the first of them on is of its steps."""
        if self._on and self._window is None:
            self._opens = 0
            self._window = (time.monotonic(), *_counters())

    def close(self, dataset: Any) -> None:
        """All is measured: record what was read since the first block, here and in workers.

        `dataset` feeds the loop; None if nothing does.
        """
        if self._on and not self._parent:
            self._on, self._closed = False, True
            with Attempt(self._process, "the files that were read"):
                self._process.record.write("reads", **self._summary(dataset))

    # ------------------------------------------------------------------ per open

    def _hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """The audit hook; `id` raises an event too, so it is a plain function."""
        reads = self

        def heard(event: str, args: tuple[Any, ...]) -> None:
            if event == "open" and reads._on:
                try:
                    reads._opened(*args)
                except Exception:
                    pass  # an exception here would end the user's `open`

        return heard

    def _opened(self, path: Any, mode: Any, flags: int) -> None:
        if flags & NOT_READ or (self._process.off and not self._parent):
            return
        if type(path) is not str:
            if isinstance(path, int):
                return
            path = os.fsdecode(path)
        data = self._known.get(path)
        if data is None:
            data = _is_data(path, self._folder)
            if len(self._known) < MOST_KNOWN:
                self._known[path] = data
                self._files += data
                if data and len(self._paths) < MOST_PATHS:
                    self._paths.append(os.path.abspath(path))
        if not data:
            return
        self._opens += 1
        if self._parent:
            # Multiprocessing leaves by `os._exit`: it is to write the rest before. It forgets what
            # is registered before a worker's own code runs.
            if not self._ends and (util := sys.modules.get("multiprocessing.util")) is not None:
                util.Finalize(None, self._last, exitpriority=100)
            self._ends = True
            if time.monotonic() - self._flushed > FLUSH_EVERY_S:
                self._flush()

    # ---------------------------------------------------------------- of workers

    def _last(self) -> None:
        with suppress(Exception):  # a worker has nobody to tell
            if self._on:
                self._flush()

    def _flush(self) -> None:
        """Append the counts of a worker; stops once who trains has taken the file away."""
        self._flushed = time.monotonic()
        counted = {"t": self._flushed, "opens": self._opens, "files": self._files}
        line = {**counted, "paths": self._paths[self._sent :]}
        self._sent, self._opens = len(self._paths), 0
        path = os.path.join(self._folder, f"reads-{self._parent}-{os.getpid()}.jsonl")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | (0 if self._created else os.O_CREAT)
        try:
            fd = os.open(path, flags, 0o600)
        except OSError:
            self._on = False
            return
        self._created = True
        with open(fd, "wb", buffering=0) as file:
            file.write((json.dumps(line) + "\n").encode())

    def _workers(self) -> list[list[dict[str, Any]]]:
        """The counts that each worker wrote; takes the files away."""
        found = []
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if name.startswith(f"reads-{os.getpid()}-"):
                with suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
                    found.append([json.loads(line) for line in file if line.endswith("\n")])
                    os.unlink(path)
        return [lines for lines in found if lines]

    # -------------------------------------------------------------------- at end

    def _summary(self, dataset: Any) -> dict[str, Any]:
        now, (read, stored, own_now) = time.monotonic(), _counters()
        window = self._window or (self._began, read, stored, own_now)
        since, read_before, stored_before, own_before = window
        workers = self._workers()
        lines = [line for of_worker in workers for line in of_worker]
        paths = dict.fromkeys([*self._paths, *(path for line in lines for path in line["paths"])])
        files = max(self._files, *(line["files"] for line in lines), len(paths))
        named = names_of_dataset(dataset)
        held = _held_names(self._folder)
        # What a loop with workers reads itself are the batches that they hand over.
        handed_over = own_now - own_before if workers and not self._opens else 0
        return {
            "since": since,
            "seconds": now - since,
            "opens": self._opens + sum(line["opens"] for line in lines if line["t"] > since),
            "files": files,
            "at_least": (files >= MOST_PATHS and bool(workers)) or len(self._known) >= MOST_KNOWN,
            "paths": list(paths)[:MOST_PATHS],
            "workers": len(workers),
            "read_bytes": max(0, read - read_before - handed_over),
            "stored_bytes": max(0, stored - stored_before),
            "counted": read > 0 and self._window is not None,
            "named": named[:MOST_PATHS],
            "names": len(named),
            "held": held[:MOST_PATHS],
            "sizes": _sizes([*held, *paths, *named]),
        }


def _counters(process: str = "self") -> tuple[int, int, int]:
    """Bytes read by system calls, and from storage, by a process and those that it started.

    And by system calls of it alone.

    The kernel adds those of a process that has ended to its parent's. Zeros where it does not tell.
    """
    read = stored = own = 0
    place = f"/proc/{process}"
    with suppress(OSError, ValueError, IndexError):  # it has just ended
        with open(f"{place}/io", "rb") as file:
            words = file.read().split()
        read = own = int(words[1])
        stored = int(words[words.index(b"read_bytes:") + 1])
        for thread in os.listdir(f"{place}/task"):
            with open(f"{place}/task/{thread}/children") as file:
                counted = [_counters(child)[:2] for child in file.read().split()]
            read += sum(by_calls for by_calls, _ in counted)
            stored += sum(from_storage for _, from_storage in counted)
    return read, stored, own


def _is_data(path: str, folder: str) -> bool:
    """Whether a path may be one of training data; those in `folder` are trainperf's own."""
    if path.endswith(_PROGRAMS) or path.startswith(folder + os.sep):
        return False
    if path.startswith(_NOT_DATA):
        return path.startswith("/dev/shm/")
    return not any(part in path for part in _PACKAGES)


def names_of_dataset(dataset: Any) -> list[str]:
    """Names of files that a dataset was made from; empty if there is none."""
    try:
        if dataset is None:
            return []
        found = _in_chain(dataset) if hasattr(dataset, "element_spec") else _in_lists(dataset)
        return list(dict.fromkeys(path for names in found for path in _files(names)))
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
            sources: Any = held if isinstance(held, (list, tuple)) else [held]
            for source in sources:
                if hasattr(source, "element_spec"):
                    pending.append(source)  # file names may come as a dataset
                elif getattr(getattr(source, "dtype", None), "name", "") == "string":
                    values = source.numpy().reshape(-1)[:_MOST_NAMES]
                    yield [os.fsdecode(value) for value in values]


def _in_lists(loader: Any) -> Iterator[list[str]]:
    """Strings in the lists that the dataset of a `DataLoader` holds, list by list."""
    dataset: Any = loader
    for _ in range(6):  # Subset and the like stand around the one that has the files
        inner = getattr(dataset, "dataset", None)
        dataset = dataset if inner is None else inner
    for value in list(vars(dataset).values()):
        if isinstance(value, (list, tuple)):
            some = value[:_MOST_NAMES]
            firsts = [item[0] if isinstance(item, tuple) and item else item for item in some]
            if all(isinstance(first, (str, os.PathLike)) for first in firsts):
                yield [os.fspath(first) for first in firsts]


def _files(names: list[str]) -> list[str]:
    """Absolute paths of names; none unless those looked at, spread over them, are files."""
    paths = list(dict.fromkeys(os.path.abspath(name) for name in names if "://" not in name))
    step = max(1, len(paths) // _LOOKED_AT)
    return paths if all(os.path.isfile(path) for path in paths[::step]) else []


def _sizes(paths: list[str]) -> dict[str, int]:
    """Sizes of some of the files, in bytes: of those spread evenly over the list."""
    found = {}
    until = time.monotonic() + _SIZES_S
    for path in paths[:: max(1, len(paths) // _MOST_SIZES)]:
        if time.monotonic() > until:
            break
        with suppress(OSError):
            found[path] = os.stat(path).st_size
    return found


def _held_names(folder: str) -> list[str]:
    """Files that this process holds open for reading, or mapped: what it may read unseen."""
    found, until = list[str](), time.monotonic() + _SIZES_S
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            if time.monotonic() > until:  # some hold ten thousands open
                break
            with suppress(OSError):  # it has just been closed
                if not fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_WRONLY:
                    found.append(os.readlink(f"/proc/self/fd/{name}"))
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            rows = [row.rstrip("\n").split(maxsplit=5) for row in file]
        mapped = [(row[5], "x" in row[1]) for row in rows if len(row) == 6]
        code = {path for path, runs in mapped if runs}
        found += [path for path, _ in mapped if path not in code]
    paths = (path for path in dict.fromkeys(found) if path.startswith("/"))
    return [path for path in paths if _is_data(path, folder) and os.path.isfile(path)]
