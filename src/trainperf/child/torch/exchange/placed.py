"""Models spread over devices or processes by other means than DDP, and checkpoints.

`DataParallel`, models placed over several devices by hand. The constructor is hooked, none of
the steps.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import Counter
from typing import Any

from ...process import frames
from ...process.patching import Attempt, after, replace
from ...process.turns import Places
from ..built import models

# ------------------------------------------------------------------------ the hooks


def watch_data_parallel(loops: Any, module: Any) -> None:
    """Note where each is built; `module` is `torch.nn.parallel.data_parallel`."""

    def built(model: Any, *args: Any, **kwargs: Any) -> None:
        loops.data_parallels.append((weakref.ref(model), frames.here(model)))

    after(loops.process, module.DataParallel, "__init__", "where a DataParallel is built", built)


def watch_saves(loops: Any, module: Any) -> None:
    """Count and time checkpoints that are written to files; `module` is `torch.serialization`.

    A step in which one is written now and then is no usual one.
    """
    places, process = Places(), loops.process

    def make(original: Any) -> Any:
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            began = process.clock()
            result = original(obj, f, *args, **kwargs)
            with Attempt(process, "a checkpoint"):
                driver = loops.training.driver
                if not loops.passive() and driver is not None and _is_file(f):
                    count, where = loops.saves
                    loops.saves = count + 1, where or frames.here()
                    seconds = process.clock() - began
                    process.record.write("saving", s=began, seconds=seconds, **places.here())
                    driver.evaluated = True
            return result

        return save

    replace(module, "save", make)


def _is_file(target: Any) -> bool:
    """Whether it is a path or an open file, no buffer in memory."""
    return isinstance(target, (str, os.PathLike)) or isinstance(getattr(target, "name", None), str)


# -------------------------------------------------------------------- asked for later


def data_parallel(loops: Any) -> list[tuple[Any, dict[str, Any] | None]]:
    """The `DataParallel` modules that are still there, and where they were built."""
    built = loops.data_parallels
    found = [(reference(), where) for reference, where in built]
    return [(one, where) for one, where in found if one is not None]


def record(driver: Any) -> None:
    """Record the facts `data_parallel`, `model_devices`, `checkpoint_writes`.

    `local_world_size` is what the launcher said of this host. `checkpoint_where` is the
    first call that wrote one in the loop.
    """
    loops, fact = driver.loops, driver.process.fact
    for one, where in data_parallel(loops)[:1]:
        ids = [int(index) for index in getattr(one, "device_ids", None) or []]
        model = type(getattr(one, "module", one)).__name__
        fact("data_parallel", {"model": model, "where": where, "device_ids": ids})
    placed = over_devices(loops)
    if placed:
        fact("model_devices", placed)
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    fact("local_world_size", int(local) if local.isdigit() else None)
    count, where = loops.saves
    fact("checkpoint_writes", count)
    if where is not None:
        fact("checkpoint_where", where)


def over_devices(loops: Any) -> dict[str, Any] | None:
    """Which devices a trained model was placed on by hand: parameters on each of them.

    None if on one only. Parameters on the host beside one GPU count: they are moved, or
    computed with, in each step.
    """
    trained = models.trained_parameters(loops)
    for model, _, _ in models.models(loops):
        on = Counter(
            str(one.device) for one in model.parameters() if not trained or id(one) in trained
        )
        if len(on) > 1:
            return {"model": type(models.unwrapped(model)).__name__, "devices": dict(on)}
    return None


def gradient_bytes(model: Any) -> int:
    """Bytes of the gradients of all parameters that want one."""
    torch: Any = sys.modules["torch"]
    return sum(
        one.numel() * one.element_size()
        for one in model.parameters()
        if one.requires_grad and isinstance(one, torch.Tensor)
    )
