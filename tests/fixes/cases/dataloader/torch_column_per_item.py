"""The cases of `torch_column_per_item`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.torch_cases import LOADER
from fixes.cases.dataloader._input_cases import made, starved
from fixes.cases.dataloader.examples.columns import EXAMPLES
from trainperf.model import Access, Missing

TAKEN = replace(LOADER, accesses=(Access("column", 3.0, 0.0015, 0.7, tables=("table",)),))

examples = EXAMPLES

silent = [
    starved(),
    # nobody waits for it
    starved(TAKEN, real=0.1, resident=0.098, input=0.02),
    # a small part of what items take, or of a batch
    starved(replace(LOADER, accesses=(Access("column", 1.0, 1e-5, 0.02, tables=("table",)),))),
    starved(TAKEN, stages=made(0.004, 0.076)),
    starved(TAKEN, resident=None),
    starved(replace(LOADER, accesses=(Access("h5py.File", 1.0, 0.0015, 0.7),))),
]

fires = [
    starved(TAKEN),
    starved(replace(LOADER, accesses=(Access("column", 2.0, 0.0015, 0.7, columns=("texts",)),))),
    # whose columns they are is not known: no edit
    starved(replace(LOADER, accesses=(Access("column", 2.0, 0.0015, 0.7),))),
]

tries_not = [starved(resident=None), starved(TAKEN, stages=Missing("not timed"))]
