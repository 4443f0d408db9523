"""PyTorch's writers, sent to the run's scratch folder at the same cost.

Checkpoints of Lightning and of Hugging Face's Trainer come by way of `torch.save` and
safetensors; what they write beside them by plain `open` is covered by the view alone.
"""

from __future__ import annotations

import os
from typing import Any

from .writers import Scratch, argument, wrap


def serialization(module: Any, scratch: Scratch) -> None:
    wrap(module, "save", argument(1, "f", scratch.redirect))
    wrap(module, "load", argument(0, "f", scratch.reading))
    for name in ("rename", "replace"):
        wrap(os, name, _renaming(scratch))
    for name in ("remove", "unlink"):
        wrap(os, name, _removing(scratch))


def safetensors(module: Any, scratch: Scratch) -> None:
    wrap(module, "save_file", argument(1, "filename", scratch.redirect))
    wrap(module, "save_model", argument(1, "filename", scratch.redirect))
    wrap(module, "load_file", argument(0, "filename", scratch.reading))
    wrap(module, "load_model", argument(1, "filename", scratch.reading))


def shards(module: Any, scratch: Scratch) -> None:
    """Those of `torch.distributed.checkpoint`, which are told their folder twice."""
    for cls, change in (
        (module._FileSystemWriter, scratch.redirect),
        (module.FileSystemReader, scratch.reading),
    ):
        wrap(cls, "__init__", argument(1, "path", change))
        wrap(cls, "reset", argument(1, "checkpoint_id", change))


def summary(module: Any, scratch: Scratch) -> None:
    name = "log_dir" if module.__name__.startswith("torch") else "logdir"
    wrap(module.FileWriter, "__init__", argument(1, name, scratch.redirect))


def _renaming(scratch: Scratch) -> Any:
    """Checkpoints are written under another name first: what was redirected is renamed there."""

    def make(original: Any) -> Any:
        def rename(src: Any, dst: Any, **folders: Any) -> Any:
            source = src if folders else scratch.reading(src)
            if source is src:
                return original(src, dst, **folders)
            return original(source, scratch.redirect(dst))

        return rename

    return make


def _removing(scratch: Scratch) -> Any:
    """Old checkpoints are removed: from a folder that this run wrote to, only for this run."""

    def make(original: Any) -> Any:
        def remove(path: Any, **folder: Any) -> Any:
            place = None if folder else scratch.place(path)
            if place is None or not os.path.isdir(os.path.dirname(place)):
                return original(path, **folder)
            if os.path.lexists(place):
                original(place)
            elif scratch.is_removed(path) or not os.path.lexists(path):
                return original(place)  # fails as it must: there is no such file
            return scratch.remove(path)

        return remove

    return make
