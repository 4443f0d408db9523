"""What PyTorch's writers write goes to the run's scratch folder, at the same cost.

Checkpoints of Lightning and of Hugging Face's Trainer come by way of `torch.save` and
safetensors; what they write beside them by plain `open` is covered by the view alone.
"""

from __future__ import annotations

from typing import Any

from .changes import Changes
from .writers import Scratch
from .writing import argument


def serialization(module: Any, scratch: Scratch, changes: Changes) -> None:
    changes.wrap(module, "save", argument(1, "f", scratch.redirect))
    changes.wrap(module, "load", argument(0, "f", scratch.reading))


def safetensors(module: Any, scratch: Scratch, changes: Changes) -> None:
    changes.wrap(module, "save_file", argument(1, "filename", scratch.redirect))
    changes.wrap(module, "save_model", argument(1, "filename", scratch.redirect))
    changes.wrap(module, "load_file", argument(0, "filename", scratch.reading))
    changes.wrap(module, "load_model", argument(1, "filename", scratch.reading))


def summary(module: Any, scratch: Scratch, changes: Changes) -> None:
    name = "log_dir" if module.__name__.startswith("torch") else "logdir"
    changes.wrap(module.FileWriter, "__init__", argument(1, name, scratch.redirect))
