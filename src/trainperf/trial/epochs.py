"""Whole epochs as slices, for fixes that save between them. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from trainperf.model import Finding
from trainperf.model.run import Epoch
from trainperf.trial.slices import Slice


def epoch_of(finding: Finding) -> Epoch | None:
    """The epoch that a finding gives with its data; None if it gives none."""
    given = finding.data.get("epoch")
    return None if given is None else Epoch(**given)


def epochs_of_slice(epoch: Epoch, step_s: float, slice_s: float) -> int:
    """How many whole epochs make a slice of at least `slice_s`, of steps of `step_s` seconds."""
    return max(1, math.ceil(slice_s / max(epoch.steps * step_s, 1e-6)))


def in_turns(epoch: Epoch, work: float) -> Epoch:
    """The epoch counted in turns of a leg's loop, each of which does so many steps' work.

    Several steps a call, or several batches' samples a step, make fewer turns of an epoch, the
    last of which may hold less.
    """
    return replace(epoch, steps=max(1, math.ceil(epoch.steps / max(work, 1.0))))


def with_pause(piece: Slice, epoch: Epoch) -> Slice | str:
    """The slice as long as its epochs take in the script, or why that cannot be told.

    A leg opens its input anew within one epoch of the script, so that its training does
    not end; what else comes between epochs (validation) is added as it was observed. Turns as
    they are written have all of it.
    """
    if epoch.written:
        return piece
    if piece.epochs is None or piece.epochs * epoch.steps != piece.steps:
        return f"its epochs do not all have {epoch.steps:,} steps, so none could be compared"
    return replace(piece, seconds=piece.seconds + piece.epochs * epoch.pause_s)
