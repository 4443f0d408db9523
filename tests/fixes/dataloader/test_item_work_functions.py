"""Which functions are named beside items that take long to make."""

from __future__ import annotations

from dataclasses import replace

from fixes.case_text import evidence_of
from trainperf.fixes.dataloader.items import TorchItemWork
from trainperf.model import FunctionCost


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
    case = evidence_of(
        'torch_slow_transform | loop.where.function = "log_every"; '
        'torch.calls.forward.function = "training_step"; torch.loaders[0].repeats = false'
    )
    found = TorchItemWork().look(replace(case, functions=functions))
    assert found is not None
    assert "on the main thread: 21 % in `Augment.saturation` (train.py:7)." in found.text
