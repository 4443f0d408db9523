"""The part of an input pipeline that takes its time."""

from __future__ import annotations

import os

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import at
from trainperf.model import Evidence, Function, FunctionCost, Loader, Missing, Site, Stage

PYTHON_SOURCES = ("from_generator", "generator", "PyDataset")
KERAS_BATCHING = ("NumPy arrays", "tensors")

LOADER_STAGES = {
    "sampler": "the sampler",
    "collate": "the samples to be put together into a batch",
    "inter-process copy": "batches to come over from the worker processes",
    "pin": "batches to be copied into pinned memory",
}
"""The words for why a `DataLoader` is late, by the stage that takes longest."""


def input_culprit(evidence: Evidence) -> str:
    """The work that the input pipeline spends its time on, with its place."""
    stage = _dearest(evidence)
    loop = evidence.loop
    if loop.opened_each is not None:
        return f"its input to be opened anew for each batch, {at(loop.opened_each)}"
    if evidence.torch_ is not None and (loop.kind != "fit" or loop.input_kind == "DataLoader"):
        return _loader_culprit(evidence, stage)
    if stage is None and loop.pydataset_item is not None:
        return f"`__getitem__` of the `PyDataset`, {at(loop.pydataset_item)}"
    workers = [cost for cost in evidence.functions if _feeds(cost, evidence)]
    if stage is not None and stage.function is not None and stage.function.name != "<lambda>":
        return f"`{stage.function.name}`, {_head(stage.function)}"
    if workers and (stage is None or stage.python or stage.op in PYTHON_SOURCES):
        return f"`{workers[0].name}`, {at(Site(workers[0].file, workers[0].line))}"
    if stage is not None and stage.op in KERAS_BATCHING:
        return f"Keras's batching of {stage.op}" + (f", {at(stage.where)}" if stage.where else "")
    if stage is not None:
        return f"the `{stage.op}` at {at(stage.where)}" if stage.where else f"`{stage.op}`"
    return "its data"


def _loader_culprit(evidence: Evidence, stage: Stage | None) -> str:
    """The cause of a `DataLoader`'s late batches: the user's own code where it is."""
    loader = _loader(evidence)
    making = _processes(loader)
    if stage is not None and stage.function is not None and stage.function.name != "<lambda>":
        name = stage.function.name
        if stage.op == "dataset item" and loader is not None:
            name = _of(loader.dataset, name)
        return f"`{name}`, {_head(stage.function)}{making}"
    if stage is not None and stage.op in LOADER_STAGES:
        return LOADER_STAGES[stage.op] + _built(loader, stage.where)
    if loader is not None and loader.item is not None:
        name = _of(loader.dataset, loader.item.function or "__getitem__")
        return f"`{name}`, {at(loader.item)}{making}"
    if loader is not None and loader.dataset:
        return f"the items of `{loader.dataset}`{_built(loader, loader.where)}{making}"
    return f"its data{_built(loader, None)}{making}"


def _loader(evidence: Evidence) -> Loader | None:
    try:
        return evidence.torch.loader
    except NotMeasured:
        return None


def _of(dataset: str, name: str) -> str:
    """A method with its class: "Images.__getitem__"."""
    return f"{dataset}.{name}" if dataset and "." not in name and "__" in name else name


def _built(loader: Loader | None, where: Site | None) -> str:
    where = where or (None if loader is None else loader.where)
    return f" (the `DataLoader` at {at(where)})" if where else ""


def _processes(loader: Loader | None) -> str:
    """In how many processes the loader makes its items."""
    if loader is None:
        return ""
    if loader.workers == 0:
        return ", with `num_workers=0`"
    return f", in {loader.workers} worker process{'es' if loader.workers > 1 else ''}"


def _head(function: Function) -> str:
    if not function.line:
        return os.path.basename(function.file)
    return at(Site(function.file, function.line))


def _feeds(cost: FunctionCost, evidence: Evidence) -> bool:
    loop = evidence.loop
    if loop.kind not in ("call", "update"):
        return cost.thread == "worker"
    return loop.where is None or (cost.file, cost.line) != (loop.where.file, loop.where.line)


def _dearest(evidence: Evidence) -> Stage | None:
    if isinstance(evidence.stages_, Missing):
        return None
    timed = [
        stage for stage in evidence.stages_ if not isinstance(stage.seconds_per_step_, Missing)
    ]
    return max(timed, key=lambda stage: stage.seconds_per_step, default=None)
