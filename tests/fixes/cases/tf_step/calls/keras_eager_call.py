"""The cases of `keras_eager_call`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import evidence
from fixes.cases.tf_step.calls._eager_examples import EXAMPLES
from fixes.cases.tf_step.calls._model_calls import between_fits, in_steps, timed_in_place
from trainperf.model.outside import CALLED_EAGERLY

BETWEEN_FITS = between_fits(CALLED_EAGERLY)

(CALLED,) = BETWEEN_FITS.spent

IN_STEPS = in_steps(CALLED_EAGERLY)

silent = [
    evidence(),
    evidence(outside_=replace(BETWEEN_FITS, spent=())),
    # compiled already
    evidence(
        outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, name="predict_on_batch"),)),
    ),
    # `predict` has a fix of its own
    evidence(outside_=between_fits("predict")),
    # a set of data, in one call
    evidence(
        outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, calls=1, seconds=0.15, rows=600),)),
    ),
    # a large model: its arithmetic takes the time
    evidence(outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, calls=20),))),
    # nothing of it would be felt
    evidence(outside_=replace(BETWEEN_FITS, seconds=400.0)),
]

fires = [
    evidence(outside_=BETWEEN_FITS),
    evidence(outside_=IN_STEPS),
    evidence(outside_=timed_in_place(BETWEEN_FITS)),
    # where it was not seen that `predict_on_batch` does the same: told of, and left as it is
    evidence(outside_=replace(BETWEEN_FITS, spent=(replace(CALLED, rows=None),))),
]

examples = EXAMPLES
