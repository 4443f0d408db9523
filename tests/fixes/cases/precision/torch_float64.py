"""The cases of `torch_float64`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU, SITE
from fixes.cases.common.torch_cases import MODEL, split, torch_evidence
from fixes.cases.precision._float32_edits import EXAMPLES
from trainperf.fixes.common.words import MIB
from trainperf.model import Loop, Missing

DOUBLE = replace(MODEL, dtypes=("float64",))

BATCH = {"float64_batch": True}


def _loop(batch_bytes: int | None) -> Loop:
    return Loop("iterator", where=SITE, batch_bytes=batch_bytes, batch_dtypes=("float64",))


examples = EXAMPLES

silent = [
    torch_evidence(),
    # float64, but a few kilobytes of it: labels, small tables
    torch_evidence(flags=BATCH, loop=_loop(40_000)),
    # how much it is, is not known
    torch_evidence(flags=BATCH, loop=_loop(None)),
    torch_evidence(flags={"float64_batch": None}, loop=_loop(200 * MIB)),
    # a float64 model that waits for its input, one whose passes were not timed
    torch_evidence(model=DOUBLE, resident=0.004, input=0.098),
    torch_evidence(model=DOUBLE, split=Missing("not timed")),
    torch_evidence(model=None, flags={}, loop=_loop(200 * MIB)),
]

fires = [
    torch_evidence(flags=BATCH, loop=_loop(200 * MIB)),
    torch_evidence(flags=BATCH, loop=_loop(200 * MIB), loader=None, model=None),
    torch_evidence(model=DOUBLE),
    torch_evidence(model=DOUBLE, device=GPU),
    torch_evidence(
        model=replace(DOUBLE, dtypes=("float32", "float64"), where=None),
        split=split(forward=0.04, backward=0.05),
    ),
]
