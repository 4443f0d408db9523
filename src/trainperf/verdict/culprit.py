"""The part of an input pipeline that takes its time."""

from __future__ import annotations

import os

from trainperf.fixes.common.words import at
from trainperf.model import Evidence, Function, Loader, Site, Stage, known

PYTHON_SOURCES = ("from_generator", "generator", "PyDataset")
KERAS_BATCHING = ("NumPy arrays", "tensors")

LOADER_STAGES = {
    "sampler": "the sampler",
    "collate": "the samples to be put together into a batch",
}
"""The words for why a `DataLoader` is late, by the stage that takes longest."""


def input_culprit(evidence: Evidence) -> str:
    """The work that the input pipeline spends its time on, with its place."""
    timed = [
        (seconds, stage)
        for stage in known(evidence.stages_) or ()
        if (seconds := known(stage.seconds_per_step_)) is not None
    ]
    stage = max(timed, key=lambda pair: pair[0])[1] if timed else None
    loop = evidence.loop
    if loop.opened_each is not None:
        return f"its input to be opened anew for each batch, {at(loop.opened_each)}"
    if evidence.torch_ is not None and (loop.kind != "fit" or loop.input_kind == "DataLoader"):
        loaders = (loader for loader in evidence.torch_.loaders if loader.role == "training")
        return _of_loader(next(loaders, None), stage)
    if stage is None and loop.pydataset_item is not None:
        return f"`__getitem__` of the `PyDataset`, {at(loop.pydataset_item)}"
    if (named := _function(stage)) is not None:
        return f"`{named.name}`, {_head(named)}"
    head = loop.where and (loop.where.file, loop.where.line)
    own_thread = loop.kind in ("call", "update")
    feeds = (
        cost
        for cost in evidence.functions
        if ((cost.file, cost.line) != head if own_thread else cost.thread == "worker")
    )
    of_python = stage is None or stage.python or stage.op in PYTHON_SOURCES
    if of_python and (cost := next(feeds, None)) is not None:
        return f"`{cost.name}`, {at(Site(cost.file, cost.line))}"
    if stage is None:
        return "its data"
    if stage.op in KERAS_BATCHING:
        return f"Keras's batching of {stage.op}" + (f", {at(stage.where)}" if stage.where else "")
    return f"the `{stage.op}` at {at(stage.where)}" if stage.where else f"`{stage.op}`"


def _of_loader(loader: Loader | None, stage: Stage | None) -> str:
    """The cause of a `DataLoader`'s late batches: the user's own code where it is."""
    making, dataset, site = "", "", None if stage is None else stage.where
    if loader is not None:
        dataset, site = loader.dataset, site or loader.where
        processes = f"process{'es' if loader.workers > 1 else ''}"
        making = f", in {loader.workers} worker {processes}"
        if not loader.workers:
            making = ", with `num_workers=0`"
    where = f" (the `DataLoader` at {at(site)})" if site else ""
    if (named := _function(stage)) is not None:
        item = stage is not None and stage.op == "dataset item"
        return f"`{_of(dataset if item else '', named.name)}`, {_head(named)}{making}"
    if stage is not None and stage.op in LOADER_STAGES:
        return LOADER_STAGES[stage.op] + where
    if loader is not None and loader.item is not None:
        name = _of(dataset, loader.item.function or "__getitem__")
        return f"`{name}`, {at(loader.item)}{making}"
    return f"{f'the items of `{dataset}`' if dataset else 'its data'}{where}{making}"


def _function(stage: Stage | None) -> Function | None:
    """The user's function that a stage applies; None for one without a name."""
    found = None if stage is None else stage.function
    return None if found is None or found.name == "<lambda>" else found


def _of(dataset: str, name: str) -> str:
    """A method with its class: "Images.__getitem__"."""
    return f"{dataset}.{name}" if dataset and "." not in name and "__" in name else name


def _head(function: Function) -> str:
    if not function.line:
        return os.path.basename(function.file)
    return at(Site(function.file, function.line))
