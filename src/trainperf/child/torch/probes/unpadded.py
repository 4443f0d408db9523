"""Whether a model gives the same without the padding of its batch."""

from __future__ import annotations

from typing import Any

from ...process.patching import Attempt
from .. import batches
from ..loader.padding import sequence_ends
from .passes import changed, evaluated

CLOSE = 5e-3
"""Largest distance of two outputs that other rounding may make, over their usual size."""


def of_driver(driver: Any) -> bool | None:
    """The answer for the largest trained model of a loop; None where it cannot be asked."""
    called = largest(driver)
    # One may be made for batches of one shape only.
    with Attempt(driver.process, "the model on a batch without its padding"):
        return None if called is None else masks_padding(*called)
    return None


def largest(driver: Any) -> Any:
    """The last call of a loop's largest model: the module, its arguments and keywords.

    None where there is none, and for a model of several processes: the others would wait for it.
    """
    import torch

    distributed: Any = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return None
    calls = list(driver.loops.model_calls.values())
    size = lambda call: sum(one.numel() for one in call[0].parameters())  # noqa: E731
    return max(calls, key=size, default=None)


def masks_padding(module: Any, args: Any, kwargs: Any) -> bool | None:
    """Whether the model gives the same for its shorter sequences without their padding.

    The half of the samples with the shortest sequences is run without gradients, and in the
    mode of evaluation, as it is and cut to the longest of them. None where the arguments hold
    no padded sequences, or cutting them fails.
    """
    arguments = (args, kwargs)
    held = list(batches.leaves(arguments))
    found = next(((leaf, ends) for leaf in held if (ends := sequence_ends(leaf))), None)
    if found is None:
        return None
    rows, steps = found[0].shape[:2]
    order = sorted(range(rows), key=found[1].__getitem__)[: max(1, rows // 2)]
    longest = max(1, max(found[1][row] for row in order))
    if longest >= steps:
        return None

    def some(leaf: Any) -> Any:
        return leaf.detach()[order] if leaf.dim() and leaf.shape[0] == rows else leaf.detach()

    def cut(leaf: Any) -> Any:
        short = some(leaf)
        return short[:, :longest] if short.dim() > 1 and short.shape[1] == steps else short

    with evaluated(module):
        whole, short = (_outputs(module, changed(arguments, one)) for one in (some, cut))
    return _alike(whole, short, steps, longest)


def _outputs(module: Any, arguments: Any) -> list[Any]:
    args, kwargs = arguments
    return [leaf.float() for leaf in batches.leaves(module(*args, **kwargs))]


def _alike(whole: list[Any], cut: list[Any], steps: int, longest: int) -> bool:
    """Whether outputs are the same, those of each step up to the longest sequence."""
    if len(whole) != len(cut) or not whole:
        return False
    for one, other in zip(whole, cut, strict=True):
        same = one[:, :longest] if one.dim() > 1 and one.shape[1] == steps else one
        if same.shape != other.shape:
            return False
        usual = float(same.abs().mean()) or 1.0
        if float((same - other).abs().max()) > CLOSE * usual:
            return False
    return True
