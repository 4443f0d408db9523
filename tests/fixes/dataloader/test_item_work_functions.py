"""Which functions are named beside items that take long to make."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.torch_cases import CALLS, FORWARD_SITE
from fixes.cases.dataloader._input_cases import starved
from trainperf.fixes.dataloader.torch_item_work import ItemWork
from trainperf.model import FunctionCost, Loop, Site


def cost(name: str, share: float) -> FunctionCost:
    return FunctionCost(name, "train.py", 7, share, "main", int(share * 100))


def test_methods_that_hold_the_loop_or_the_step_make_no_items() -> None:
    """A logger that iterates over the loader, a trainer's step, a forward, and the work."""
    functions = (
        cost("MetricLogger.log_every", 0.09),
        cost("Trainer.training_step", 0.06),
        cost("Block.forward", 0.05),
        cost("Augment.saturation", 0.21),
    )
    loop = Loop("iterator", where=Site("train.py", 73, "log_every"), input_kind="DataLoader")
    calls = replace(CALLS, forward=replace(FORWARD_SITE, function="training_step"))
    found = ItemWork().detect(starved(functions=functions, loop=loop, calls=calls))
    assert found is not None
    assert found.text.endswith("on the main thread: 21 % in `Augment.saturation` (train.py:7).")
