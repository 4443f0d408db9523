"""The user's files as they were before a fix was written into them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.patch.apply import Change


@dataclass(frozen=True)
class _List:
    """Which fixes were written, and of which files there are copies, with their names."""

    fixes: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """Copies of files, in a folder that has them under their names in the patch.

    `list_file` says which fixes were written, and of which files the copies are.
    """

    folder: Path
    list_file: Path
    _list: _List

    @classmethod
    def of(cls, report: Path, in_own_folder: bool) -> Kept:
        """Return what is kept for a report: in its folder, or beside it in one of its own."""
        start = "" if in_own_folder else f"{report.stem}."
        here = report.absolute().parent
        list_file = here / f"{start}applied.json"
        try:
            found = msgspec.json.decode(list_file.read_bytes(), type=_List)
        except (OSError, ValueError, msgspec.MsgspecError):  # a damaged list is as good as none
            found = _List()
        return cls(here / f"{start}before", list_file, found)

    def fixes(self) -> tuple[str, ...]:
        """Return the ids of the fixes that were written so far."""
        return self._list.fixes

    def originals(self) -> dict[str, bytes]:
        """Return the bytes of the files as they were, by absolute path."""
        found = {}
        for path, name in self._list.files.items():
            try:
                found[path] = (self.folder / name).read_bytes()
            except OSError:
                continue
        return found

    def keep(self, changes: Iterable[Change], fixes: tuple[str, ...]) -> None:
        """Copy the files that are about to be changed, with their modes and times.

        Raises `TrainperfError` where that cannot be done.
        """
        files = dict(self._list.files)
        try:
            for change in changes:
                copy = self.folder / change.name
                files[change.path] = change.name
                if copy.exists() and copy.read_bytes() == change.original:
                    continue
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.unlink(missing_ok=True)
                copy.write_bytes(change.original)
                shutil.copystat(change.path, copy)
            store.write_whole(self.list_file, msgspec.json.encode(_List(fixes, files)))
        except OSError as error:
            raise TrainperfError(
                f"the files cannot be kept in {self.folder}: {error.strerror}; nothing was written",
                hint="see that the folder can be written to and has space",
            ) from error
