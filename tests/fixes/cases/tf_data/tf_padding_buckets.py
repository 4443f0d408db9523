"""The cases of `tf_padding_buckets`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import evidence, stage
from fixes.cases.tf_data.examples.buckets import EXAMPLES
from trainperf.model import Padding


def _padded(mean: float, padded: float, bucketed: float, seen: int = 640) -> Any:
    return evidence(padding=Padding(mean, padded, bucketed, seen))


silent = [
    evidence(),
    _padded(80, 100, 85),
    _padded(20, 100, 30, seen=12),
    # batches are alike already: buckets would not be shorter
    _padded(40, 100, 98),
    # the step is not what costs
    evidence(real=0.1, resident=0.004, padding=Padding(20, 100, 30, 640)),
    evidence(real=0.1, resident=None, padding=Padding(20, 100, 30, 640)),
    evidence(real=0.1, resident=0.05, input=0.1, padding=Padding(20, 100, 30, 640)),
]

fires = [
    _padded(20, 100, 30),
    _padded(58, 400, 75.5),
    evidence(padding=Padding(20, 100, 30, 640), stages_=(stage("padded_batch", 0.01),)),
]

examples = EXAMPLES
