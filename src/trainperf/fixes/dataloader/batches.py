"""Batches on their way: collated, ready in a queue, in shared or pinned memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import upper
from trainperf.fixes.common.words import at, if_measured, ms, percent
from trainperf.fixes.dataloader._loader import (
    COLLATE,
    DATA_LOADER,
    ITEM,
    PREFETCH,
    bound_without,
    cores_per_rank,
    costs_said,
    exact,
    fits_shm,
    in_tensors,
    keeps_up,
    named,
    places,
    seen_in_run,
    stage_seconds,
)
from trainperf.fixes.rows import SetArgument
from trainperf.model import Evidence, Finding, Site, Variant, is_taken
from trainperf.model.words import count
from trainperf.rewrite import Script
from trainperf.rewrite.expressions import PRIMARY
from trainperf.source.arguments import starred
from trainperf.source.module import Module, inside
from trainperf.source.statements import Function, called

LONGER = (4, 8)
"""Values of `prefetch_factor` worth a trial: beyond 8 batches for each worker, memory grows and
nothing else."""


class TorchPrefetchFactor(Fix):
    """Let each worker have more batches ready.

    Why slow: Each worker makes two batches ahead unless told otherwise. Where some samples take
    far longer than others (large images, slow reads), the queue runs empty now and then and the
    model waits, though the workers are quick enough on average.
    Changes: `prefetch_factor` becomes 4 or 8. Batches and their order stay the same.
    When not:
    - When memory or `/dev/shm` is short: workers × prefetch_factor batches lie there.
    - When the workers are too slow on average: a longer queue runs empty all the same.
    """

    ahead = True
    edit = SetArgument(
        "prefetch_factor", "{prefetch_factor}", DATA_LOADER, needs="num_workers", without="None"
    )

    def look(self, evidence: Evidence) -> Cause | None:
        """Find workers with short queues; for sure if alone they are faster than the step."""
        loader, times = evidence.torch.loader, evidence.times
        now = loader.prefetch_factor or PREFETCH
        offered = [n for n in LONGER if n > now and fits_shm(evidence, loader.workers, n)]
        if loader.workers == 0 or not offered:
            return None
        waits = if_measured(
            lambda: f"; each step waits {ms(times.real - times.resident)} for its batch"
        )
        return Cause(
            title=f"Each worker has no more than {now} batches ready",
            text=f"{named(loader)} is read by {count(loader.workers, 'worker')}{waits}.",
            saves=Saving(
                upper(evidence, "no step waits for its batch"),
                ratio=lambda: times.real / max(times.resident, 1e-9),
                of="input",
            ),
            where=places(loader),
            advice=f"Let each worker make {offered[0]} batches ahead.",
            snippet=f"loader = DataLoader(dataset, ..., num_workers={loader.workers}, "
            f"prefetch_factor={offered[0]})",
            # with as many workers as cores they rather fight for these
            sure=keeps_up(evidence) and loader.workers < cores_per_rank(evidence),
            data={"prefetch_factor": offered[0], **seen_in_run(evidence)},
            variants=tuple(Variant({"prefetch_factor": batches}) for batches in offered),
        )


class TorchPinMemory(Fix):
    """Copy batches to the GPU from pinned memory.

    Why slow: The GPU cannot read ordinary memory: the driver first copies each batch into a buffer
    of its own, and the training process waits for the whole transfer.
    Changes: `pin_memory=True` lets a thread of the loader put batches into page-locked memory,
    from which the GPU reads by itself. `non_blocking=True` in `.to(device)` lets Python go on
    meanwhile.
    When not:
    - When memory is short: pinned pages cannot be swapped out.
    - When the dataset returns tensors that are on the GPU already.
    - Never `non_blocking=True` for copies to the CPU: the values may be read too early.
    """

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a loader that feeds a GPU out of pageable memory."""
        loader = evidence.torch.loader
        if evidence.device.kind != "GPU" or loader.pin_memory:
            return None
        try:
            copies = evidence.torch.part("transfer")
        except NotMeasured:
            seconds, site, spent = None, None, ""
        else:
            seconds, site = copies.seconds, copies.where
            spent = f", and each step spends {ms(copies.seconds)} on copies"
            spent += if_measured(lambda: f" ({percent(copies.seconds / evidence.times.real)})")
        return Cause(
            title="Batches are copied from memory that is not pinned",
            text=f"{named(loader)} is loaded without `pin_memory` for {evidence.device.name}"
            f"{spent}.",
            saves=Saving("no time spent on copies", seconds),
            where=places(loader) + ((site,) if site is not None and site.exact else ()),
            advice="Give the loader `pin_memory=True` and `.to(device)` `non_blocking=True`.",
            snippet="loader = DataLoader(dataset, ..., pin_memory=True)\n"
            "images = images.to(device, non_blocking=True)",
            data=seen_in_run(evidence),
            rewritable=None if loader.where is not None else False,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Pin the loader's memory, and let copies to a GPU go on by themselves."""
        loader, *copies = finding.where
        SetArgument("pin_memory", "True", DATA_LOADER).set(script, loader, finding)
        for site in copies:
            call = script.call(site)
            to_gpu = called(call) in ("to", "cuda") and "cpu" not in ast.unparse(call).lower()
            # To the CPU the copy would be read before it has ended, which no loss need show.
            if to_gpu and isinstance(call.func, ast.Attribute) and not starred(call):
                script.set_keyword(site, "non_blocking", "True")


# ------------------------------------------------------------------------- taken in one piece

WHOLE_BATCHES = '''\
class {name}({torch}.utils.data.TensorDataset):
    """A `TensorDataset` of which a loader takes a whole batch at once."""

    __getitems__ = {torch}.utils.data.TensorDataset.__getitem__
'''


class TorchWholeBatches(Fix):
    """Take each batch of a `TensorDataset` by one indexing.

    Why slow: The samples lie in tensors already. For each batch the loader takes them out one by
    one, each as a tensor of its own, and stacks these again: microseconds for each sample and
    tensor, more than a small model's step.
    Changes: The dataset answers a loader that asks for a batch with `tensor[indices]`, and nothing
    is stacked. Batches, their order and what is drawn stay the same.
    When not: Where the dataset is given other tensors later: no edit then.
    """

    usual = 1.3
    try_before = ("torch_item_work", "torch_workers")

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a loader in whose process samples in memory are taken and stacked one by one."""
        loader, timed = evidence.torch.loader, stage_seconds(evidence)
        size = evidence.loop.batch_size or 0
        stacked = any(
            one.arguments.get("collate_fn") == "default_collate" for one in evidence.stages
        )
        if not (in_tensors(loader) and stacked and ITEM in timed and size > 1):
            return None
        return Cause(
            title="Samples that lie in tensors are taken one by one",
            text=f"{named(loader)}: each step takes {costs_said(evidence)}, for {size:,} samples.",
            saves=Saving(
                "items and collating cost nothing",
                ratio=lambda: bound_without(evidence, timed[ITEM] + timed.get(COLLATE, 0.0)),
                of="input",
            ),
            where=places(loader),
            advice="Have the dataset give the loader a whole batch at once.",
            snippet="class WholeBatches(TensorDataset):\n"
            "    __getitems__ = TensorDataset.__getitem__\n\n"
            "loader = DataLoader(WholeBatches(*dataset.tensors), ..., collate_fn=list)",
            rewritable=exact(loader.where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader the same tensors in a dataset that answers for a batch."""
        site = finding.where[0]
        DATA_LOADER.check(script, site)
        dataset = script.argument(site, 0, "dataset")
        if dataset is None or script.argument(site, 6, "collate_fn") is not None:
            raise CannotRewrite("it has a collate function, or no dataset that is written out")
        if re.search(r"\.tensors\s*=[^=]", script.source(site.file).text):  # later, maybe
            raise CannotRewrite("a dataset is given other tensors")
        script.set_keyword(site, "collate_fn", "list")
        node, text = script.source(site.file).expression(dataset), script.expression(dataset)
        name = script.free_name(site.file, "WholeBatches")
        if isinstance(node, ast.Call) and called(node) == "TensorDataset":
            script.replace_call(script.site_of(dataset, node.func), name)
        else:
            held = text if isinstance(node, PRIMARY) else f"({text})"
            script.replace_call(dataset, f"{name}(*{held}.tensors)")
        torch = script.module_name(site.file, "torch")
        script.insert_function(site.file, WHOLE_BATCHES.format(name=name, torch=torch))


# --------------------------------------------------------------------------------- collating

WITH_ARRAYS = """\
def collate(samples):
    # one array operation for the batch, no loop over its elements
    images, labels = zip(*samples)
    return torch.from_numpy(numpy.stack(images)), torch.tensor(labels)"""


class TorchPythonCollate(Fix):
    """Collate a batch with operations on arrays, not element by element in Python.

    Why slow: `torch.tensor` of a list of lists, or of a list of arrays, looks at each number as an
    object of Python; so does a loop that fills a tensor element by element. That is done for every
    batch.
    Changes: `torch.tensor(rows, dtype=torch.float32)` becomes `torch.tensor(numpy.array(rows,
    dtype=numpy.float32))`, also where `torch.FloatTensor(rows)` stood, or a dtype that only the
    run shows; a loop `for j, x in enumerate(row): out[i, j] = x` becomes one assignment. The
    batches are the same.
    When not: Where the work is something else (text is parsed, a dictionary asked for each word):
    do that once for each sample, ahead of training. No edit is written for it.
    """

    usual = 1.5
    try_before = ("torch_workers",)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find collating that takes longer than the items, or is the user's and was not timed."""
        loader, timed = evidence.torch.loader, stage_seconds(evidence)
        place, items, collate = _collate_place(evidence), timed.get(ITEM), timed.get(COLLATE)
        if (place is None) if collate is None else (collate <= (items or 0.0)):
            return None
        title, takes = "The collate function may work element by element", ""
        if collate is not None:
            title, takes = "Collating takes long", f" in {ms(collate)} a step"
            takes += " of one process" if loader.workers else ""
            takes += f", and made in {ms(items)}" if items is not None else ""
        by = f" by `{place.function}` ({at(place)})" if place is not None else ""
        return Cause(
            title=title,
            text=f"{named(loader)}: its items are collated{by}{takes}.",
            saves=Saving(
                "collating costs nothing",
                ratio=None if collate is None else lambda: bound_without(evidence, collate),
                of="input",
            ),
            where=() if place is None else (place,),
            snippet=WITH_ARRAYS,
            rewritable=place is not None,
            data={"parts": list(evidence.loop.batch_parts)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Make one operation of what loops over elements in the collate function.

        Lists that become tensors of a known dtype go through NumPy, and a row that is filled
        element by element is assigned at once.
        """
        site, parts = finding.where[0], finding.data.get("parts") or ()
        function, module = script.definition(site), script.source(site.file).module
        lists = list(_tensors_of_lists(module, function, _returned(module, function, parts)))
        rows = list(_filled_rows(module, function))
        if not lists and not rows:
            raise CannotRewrite("no loop over elements that is plainly an operation on arrays")
        for call, dtype in lists:
            numpy = script.module_name(site.file, "numpy", site)
            torch = script.module_name(site.file, "torch", site)
            values = script.source(site.file).text_of(call.args[0])
            text = f"{torch}.tensor({numpy}.array({values}, dtype={numpy}.{dtype}))"
            script.replace_call(script.site_of(site, call), text)
        for loop, out, index, row in rows:
            value = row
            if _library(module, out) == "torch":
                torch = script.module_name(site.file, "torch", site)
                value = f"{torch}.as_tensor({row}, dtype={out.id}.dtype)"
            place = Site(site.file, loop.lineno, site.function)
            script.replace_statement(place, f"{out.id}[{index}] = {value}")


def _collate_place(evidence: Evidence) -> Site | None:
    """Return the head of the user's own collate function; None if it is a library's."""
    for stage in evidence.stages if is_taken(evidence.stages_) else ():
        if stage.op == COLLATE and stage.by_user and stage.function and stage.function.line:
            return Site(stage.function.file, stage.function.line, stage.function.name)
    return None


TYPED = {
    "torch.FloatTensor": "float32",
    "torch.DoubleTensor": "float64",
    "torch.LongTensor": "int64",
    "torch.IntTensor": "int32",
}
"""Constructors that say their dtype: a list of Python's numbers has none of its own."""

OF_NUMPY = {
    **{name: name for name in ("float16", "float32", "float64", "int32", "int64")},
    "float": "float32", "double": "float64", "int": "int32", "long": "int64",
}  # fmt: skip
"""Names of PyTorch's dtypes, with NumPy's name of the same."""

NUMBERS = ("len", "int", "float", "bool", "max", "min", "sum")
"""Functions that return one number."""


def _tensors_of_lists(
    module: Module, function: Function, seen: Mapping[ast.Call, str]
) -> Iterator[tuple[ast.Call, str]]:
    """Yield `torch.tensor([…], dtype=…)` and its like, of lists of lists or arrays, with the dtype.

    Calls whose dtype was `seen` need not say it.
    """
    for node in inside(function):
        if isinstance(node, ast.Call) and len(node.args) == 1:
            dtype = _dtype(module, node) or seen.get(node, "")
            if dtype and _of_rows(module.value(node.args[0])):
                yield node, dtype


def _returned(module: Module, function: Function, parts: Sequence[str]) -> dict[ast.Call, str]:
    """The calls `torch.tensor(…)` that a function returns, with the dtype that was seen of each."""
    returns = [node.value for node in inside(function) if isinstance(node, ast.Return)]
    whole = returns[0] if len(returns) == 1 else None
    made = whole.elts if isinstance(whole, ast.Tuple | ast.List) else [whole] if whole else []
    if len(made) != len(parts):
        return {}
    return {
        call: OF_NUMPY[dtype]
        for call, dtype in zip(map(module.value, made), parts, strict=True)
        if isinstance(call, ast.Call)
        and not call.keywords
        and module.name(call.func) == "torch.tensor"
        and dtype in OF_NUMPY
    }


def _dtype(module: Module, call: ast.Call) -> str:
    """The dtype that a call gives its tensor, as NumPy names it; "" where it gives none."""
    name = module.name(call.func) or ""
    match call.keywords:
        case []:
            return TYPED.get(name, "")
        case [ast.keyword(arg="dtype", value=dtype)] if name == "torch.tensor":
            return OF_NUMPY.get((module.name(dtype) or "").removeprefix("torch."), "")
    return ""


def _of_rows(values: ast.expr) -> bool:
    """Whether it is a list whose elements may be more than one number: else there is no gain."""
    match values:
        case ast.List():
            return not values.elts  # an empty one is filled in a loop
        case ast.ListComp(elt=ast.Constant() | ast.Compare()):
            return False
        case ast.ListComp(elt=ast.Call(func=ast.Name(id=name))):
            return name not in NUMBERS
    return isinstance(values, ast.ListComp)


def _filled_rows(
    module: Module, function: Function
) -> Iterator[tuple[ast.For, ast.Name, str, str]]:
    """Yield each `for j, x in enumerate(row): out[i, j] = x`: `out`, `i, :len(row)`, and `row`.

    `out` is an array made in the file. The row calls nothing, as it stands there twice then;
    whether it has a length, a trial shows.
    """
    for node in inside(function):
        match node:
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=count), ast.Name(id=element)]),
                iter=ast.Call(func=ast.Name(id="enumerate"), args=[row], keywords=[]),
                body=[
                    ast.Assign(
                        targets=[
                            ast.Subscript(
                                value=ast.Name() as out,
                                slice=ast.Tuple(elts=[*others, ast.Name(id=last)]),
                            )
                        ],
                        value=ast.Name(id=value),
                    )
                ],
                orelse=[],
            ) if (count, element) == (last, value):
                calls = any(isinstance(part, ast.Call) for part in ast.walk(row))
                if not calls and _library(module, out):
                    text = ast.unparse(row)
                    yield node, out, ", ".join([*map(ast.unparse, others), f":len({text})"]), text


def _library(module: Module, node: ast.Name) -> str:
    """The library of whose arrays a name is bound to one, once; "" where it is neither's."""
    made = module.value(node)
    name = (module.name(made.func) or "") if isinstance(made, ast.Call) else ""
    library, _, function = name.rpartition(".")
    known = library in ("torch", "numpy") and function in ("zeros", "ones", "full", "empty")
    return library if known else ""
