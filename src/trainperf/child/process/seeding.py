"""Start every source of random numbers from one seed, so that two runs can be compared.

Each is seeded right after the import that brings it; a seed that the script sets itself comes
later and wins. Keras takes its seeds from Python's `random` and from TensorFlow's, workers of a
PyTorch `DataLoader` theirs from PyTorch's. Not seeded is what asks the operating system
(`secrets`, `uuid4`) or is meant to be different each time (`from_non_deterministic_state`). The
order of sets of strings is fixed by `PYTHONHASHSEED`, before the process starts.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .importing import PostImport
from .process import Process


def install(seed: int, process: Process) -> None:
    """Seed what is imported already, and the rest when it is imported."""

    def numpy(module: Any, seconds: float) -> None:
        module.seed(seed)
        _seed_unseeded(module.bit_generator, seed)

    PostImport(
        {
            "torch": lambda module, seconds: module.manual_seed(seed),
            "random": lambda module, seconds: module.seed(seed),
            "numpy.random": numpy,
            "tensorflow": lambda module, seconds: module.random.set_seed(seed),
        },
        lambda name, error: process.failed(f"seeding {name}", error),
    ).install()


def _seed_unseeded(module: ModuleType, seed: int) -> None:
    """Let generators made without a seed (`default_rng()`) draw one from a seeded stream.

    NumPy asks the system for it with `randbits`; each generator gets its own, in the
    order they are made.
    """
    import random

    if not hasattr(module, "randbits"):
        raise AttributeError("numpy.random.bit_generator.randbits is not there any more")
    module.randbits = random.Random(seed).getrandbits  # type: ignore[attr-defined]
