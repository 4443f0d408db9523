"""Products in float32 of a PyTorch step that runs under autocast."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.model.basics import Site


@dataclass(frozen=True)
class WideProduct:
    """Work in float32 or wider of one place, in one step under autocast.

    `module` is the name of the innermost module around them, "" if there is none; `part`
    the part of the step ("forward", "backward", "rest"). `flops` counts the operations of
    matrix products, or of a loss the values that it works on.
    """

    where: Site | None
    module: str
    part: str
    seconds: float
    flops: float
    calls: int


@dataclass(frozen=True)
class Products:
    """The matrix products, convolutions and attentions of one step under autocast.

    Seconds and floating-point operations of those in 16 bits ("narrow") and in float32 or
    wider, and where the dearest of the latter stand. `losses` are softmaxes of a loss over
    millions of values in float32, and the casts to it. All times were taken one by one.
    """

    wide_s: float
    wide_flops: float
    narrow_s: float
    narrow_flops: float
    places: tuple[WideProduct, ...] = ()
    losses: tuple[WideProduct, ...] = ()
