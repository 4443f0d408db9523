"""The cases of `torch_file_per_item`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.torch_cases import LOADER
from fixes.cases.dataloader._input_cases import WITH_WORKERS, made, starved
from fixes.cases.dataloader.examples.opening import EXAMPLES
from trainperf.model import Access, Missing

OPENED = replace(LOADER, accesses=(Access("h5py.File", 1.0, 0.0015, 0.7),))

examples = EXAMPLES

silent = [
    starved(),
    # nobody waits for it
    starved(OPENED, real=0.1, resident=0.098, input=0.02),
    # a small part of what items take, or of a batch
    starved(replace(LOADER, accesses=(Access("h5py.File", 1.0, 1e-5, 0.02),))),
    starved(OPENED, stages=made(0.004, 0.076)),
    starved(OPENED, resident=None),
    # a file of its own for each item
    starved(replace(LOADER, accesses=(Access("numpy.load", 1.0, 0.0015, 0.7, repeated=0.1),))),
    starved(replace(LOADER, accesses=(Access("column", 3.0, 0.0015, 0.7),))),
]

fires = [
    starved(OPENED),
    starved(replace(WITH_WORKERS, accesses=OPENED.accesses), stages=made(0.3)),
    starved(replace(LOADER, accesses=(Access("zipfile.ZipFile", 2.0, 0.0015, 0.7),))),
    # read whole: no edit
    starved(replace(LOADER, accesses=(Access("pandas.read_parquet", 1.0, 0.0015, 0.7),))),
]

tries_not = [
    starved(resident=None),
    starved(OPENED, stages=Missing("not timed")),
]
