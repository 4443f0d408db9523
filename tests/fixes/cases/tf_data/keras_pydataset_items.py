"""The cases of `keras_pydataset_items`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import OTHER_SITE, SITE, evidence, machine
from fixes.cases.tf_data.examples.kept_items import EXAMPLES
from trainperf.fixes.common.words import GIB
from trainperf.model import Evidence, FunctionCost, Loop, Site

LOOP = Loop(
    "fit",
    where=SITE,
    batch_size=32,
    batch_bytes=4 * 1024**2,
    epochs=10,
    epoch_steps=300,
    input_kind="PyDataset",
    pydataset=OTHER_SITE,
    pydataset_arguments={"workers": 1, "use_multiprocessing": False},
    pydataset_item=Site("data.py", 31, "__getitem__"),
)

FUNCTIONS = (
    FunctionCost("load", "data.py", 44, 0.76, "worker", 220, "Image.filter"),
    FunctionCost("main", "train.py", 21, 0.20, "main", 80),
)


def _starved(loop: Loop = LOOP, **fields: Any) -> Evidence:
    fields = {"real": 0.1, "resident": 0.02, "input": 0.1, **fields}
    return evidence(loop=loop, **fields)


PROCESSES = replace(LOOP, pydataset_arguments={"workers": 4, "use_multiprocessing": True})

examples = EXAMPLES

silent = [
    evidence(loop=LOOP),  # the step hides it
    evidence(real=0.1, resident=0.098, input=0.09, loop=LOOP, functions=FUNCTIONS),
    _starved(replace(LOOP, epochs=1)),
    # too large for the memory, or of no known size
    _starved(machine=machine(available=8 * GIB)),
    _starved(replace(LOOP, batch_bytes=None)),
    _starved(replace(LOOP, epoch_steps=None)),
    # processes, which lose what they keep; not known whether there are
    _starved(PROCESSES),
    _starved(replace(LOOP, pydataset_arguments={})),
    # no `__getitem__` of the user's, or no PyDataset
    _starved(replace(LOOP, pydataset_item=None)),
    _starved(replace(LOOP, input_kind="tf.data")),
    _starved(resident=None),
]

fires = [
    _starved(),
    _starved(functions=FUNCTIONS),
    _starved(replace(LOOP, pydataset_arguments={"workers": 4, "use_multiprocessing": False})),
    # the epochs are not known, or there are just two
    _starved(replace(LOOP, epochs=None)),
    _starved(replace(LOOP, epochs=2)),
]

tries_not = [
    _starved(resident=0.1),
    _starved(replace(LOOP, epochs=1), resident=None),
    _starved(PROCESSES, resident=None),
    _starved(resident=None, machine=machine(available=8 * GIB)),
]

tries = [
    _starved(resident=None),
    _starved(real=None, resident=None, input=None),
]
