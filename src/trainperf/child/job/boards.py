"""Where the ranks of a job leave words for each other.

A folder that all of them see, or the job's own key-value store where they share no disk.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Protocol

BOARD = "board"


class Board(Protocol):
    """Where ranks leave words for each other, each under a key that one of them writes."""

    def put(self, key: str, value: str) -> None:
        """Leave a word."""

    def get(self, key: str) -> str | None:
        """The word under a key, None if there is none yet."""


class FileBoard:
    """Words as files of a folder; whole or not there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, exist_ok=True)

    def put(self, key: str, value: str) -> None:
        """Leave a word."""
        path = os.path.join(self._folder, key)
        made = f"{path}.{os.getpid()}"
        with open(made, "w", encoding="utf-8") as file:
            file.write(value)
        os.replace(made, path)

    def get(self, key: str) -> str | None:
        """The word under a key, None if there is none yet."""
        try:
            with open(os.path.join(self._folder, key), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return None


class StoreBoard:
    """Words in the store by which the job's processes found each other."""

    def __init__(self, store: Any, start: str = "0") -> None:
        self._store = store
        self._start = start  # the store may outlive ranks that are started again

    def put(self, key: str, value: str) -> None:
        """Leave a word."""
        self._store.set(f"trainperf/{self._start}/{key}", value)

    def get(self, key: str) -> str | None:
        """The word under a key, None if there is none yet."""
        name = f"trainperf/{self._start}/{key}"
        if not self._store.check([name]):
            return None
        return bytes(self._store.get(name)).decode()


def board(settings: dict[str, Any]) -> Board:
    """Where this process finds the words of the others."""
    # ranks that torchrun started again must not read what the first ones said
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if settings.get("board") is None:  # all ranks stand under one trainperf
        return FileBoard(os.path.join(settings["folder"], BOARD, again))
    distributed: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if distributed is not None and distributed.is_initialized():
        return StoreBoard(distributed._get_default_store(), again)
    return FileBoard(settings["board"])
