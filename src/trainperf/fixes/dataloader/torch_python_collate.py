"""A collate function that goes through its samples in Python, element by element."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import REAL_SHARE, pipeline_seconds
from trainperf.fixes.common.words import at, ms, worth
from trainperf.fixes.dataloader._loader import (
    COLLATE,
    ITEM,
    collate_place,
    named,
    stage_seconds,
    takes_nothing,
    waits_at_most,
)
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.iterations import may_be_sequence
from trainperf.source.module import Module, inside
from trainperf.source.statements import Function, dotted, names_in

SNIPPET = """\
def collate(samples):
    # one array operation for the batch, no loop over its elements
    images, labels = zip(*samples)
    return torch.from_numpy(numpy.stack(images)), torch.tensor(labels)"""


class PythonCollate(Fix):
    """Collate a batch with operations on arrays, not element by element in Python.

    ## Why it is slow
    A collate function runs for every batch. `torch.tensor` of a list of lists, or of a list of
    arrays, looks at each number as an object of Python; so does a loop that fills a tensor
    element by element.

    ## What changes
    `torch.tensor(rows, dtype=torch.float32)` becomes
    `torch.tensor(numpy.array(rows, dtype=numpy.float32))`, also where `torch.FloatTensor(rows)`
    stood, or a dtype that only the run shows; a loop `for j, x in enumerate(row): out[i, j] = x`
    becomes one assignment. The batches are the same.

    ## When not to
    Where the work is something else (text is parsed, a dictionary asked for each word): do that
    once for each sample, ahead of training. No edit is written for it, nor for a list whose dtype
    is neither given nor seen in the batches of the run.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.EXACT
    usual = 1.5
    try_before = ("torch_workers",)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find collating that takes longer than the items, in a loop that waits for it."""
        if not evidence.input_bound:
            return None
        loader, timed = evidence.torch.loader, stage_seconds(evidence)
        items, collate = timed.get(ITEM, 0.0), timed.get(COLLATE, 0.0)
        if collate <= items:
            return None
        longest = pipeline_seconds(evidence)
        if not loader.workers:  # with workers they share the work
            longest = max(longest, evidence.times.input)
        share = min(1.0, collate / max(longest, 1e-9))
        if share < REAL_SHARE:
            return None
        bound = evidence.bound_if_input_saves(evidence.times.input * share)
        if not worth(evidence, bound):
            return None
        place = collate_place(evidence)
        where = f" ({at(place)})" if place is not None else ""
        who = "one process takes" if loader.workers else "each step takes"
        return self.finding(
            title="Collating takes long",
            text=f"{named(loader)}: {who} {ms(collate)} to collate its items{where}, and "
            f"{ms(items)} to make them.",
            bound=bound,
            bound_basis="collating costs nothing",
            where=() if place is None else (place,),
            advice="Collate with one array operation for the whole batch.",
            snippet=SNIPPET,
            rewritable=place is not None,
            data={"parts": list(evidence.loop.batch_parts)},
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it where the user has a collate function, unless it surely costs nothing."""
        place, timed = collate_place(evidence), stage_seconds(evidence)
        collate = timed.get(COLLATE)
        if place is None or takes_nothing(evidence, collate):
            return None
        if collate is not None and collate <= timed.get(ITEM, 0.0):
            return None
        bound = waits_at_most(evidence)
        return self.finding(
            title="The collate function may work element by element",
            text=f"{named(evidence.torch.loader)} is collated by `{place.function}` ({at(place)}).",
            bound=bound,
            bound_basis=UNTRIED if bound is None else "no step waits for its batch",
            where=(place,),
            advice="Collate with one array operation for the whole batch.",
            snippet=SNIPPET,
            rewritable=True,
            data={"parts": list(evidence.loop.batch_parts)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Rewrite the loops over elements in the collate function."""
        to_arrays(script, finding.where[0], finding.data.get("parts") or ())


TYPED = {
    "torch.FloatTensor": "float32",
    "torch.DoubleTensor": "float64",
    "torch.LongTensor": "int64",
    "torch.IntTensor": "int32",
}
"""Constructors that say their dtype: a list of Python's numbers has none of its own."""

MADE = ("zeros", "ones", "full", "empty")

DTYPES = {
    "float16": "float16",
    "float32": "float32",
    "float": "float32",
    "float64": "float64",
    "double": "float64",
    "int32": "int32",
    "int": "int32",
    "int64": "int64",
    "long": "int64",
}
"""Names of PyTorch's dtypes, with NumPy's name of the same."""


def to_arrays(script: Script, site: Site, parts: Sequence[str] = ()) -> None:
    """Rewrite what loops over elements in the function whose head is at `site`.

    Lists that become tensors of a known dtype go through NumPy, and a row that is filled element
    by element is assigned at once. `parts` are the dtypes of the tensors that the function was seen
    to return, in order. Raises `CannotRewrite` where there is neither.
    """
    function = script.definition(site)
    module = script.source(site.file).module
    found = False
    seen = _returned(module, function, parts)
    for call in _tensors_of_lists(module, function, seen):
        _through_numpy(script, site, call, _dtype(module, call) or seen[call])
        found = True
    for loop in _filled_rows(module, function):
        _assigned_at_once(script, site, module, loop)
        found = True
    if not found:
        raise CannotRewrite("no loop over elements that is plainly an operation on arrays")


# ----------------------------------------------------------------- lists that become tensors


def _tensors_of_lists(
    module: Module, function: Function, seen: Mapping[ast.Call, str]
) -> Iterator[ast.Call]:
    """Yield `torch.tensor([…], dtype=…)` and its like, of lists of lists or arrays.

    Calls whose dtype was `seen` need not say it.
    """
    for node in inside(function):
        if isinstance(node, ast.Call) and len(node.args) == 1:
            values = module.value(node.args[0])
            lists = isinstance(values, ast.ListComp | ast.List) and not _scalars(values)
            if lists and (_dtype(module, node) or node in seen):
                yield node


def _returned(module: Module, function: Function, parts: Sequence[str]) -> dict[ast.Call, str]:
    """The calls `torch.tensor(…)` that a function returns, with the dtype that was seen of each."""
    returns = [node for node in inside(function) if isinstance(node, ast.Return)]
    if len(returns) != 1 or returns[0].value is None:
        return {}
    whole = returns[0].value
    made = whole.elts if isinstance(whole, ast.Tuple | ast.List) else [whole]
    if len(made) != len(parts):
        return {}
    calls = ((module.value(one), dtype) for one, dtype in zip(made, parts, strict=True))
    return {
        call: dtype
        for call, dtype in calls
        if isinstance(call, ast.Call)
        and not call.keywords
        and module.name(call.func) == "torch.tensor"
        and dtype in DTYPES
    }


def _dtype(module: Module, call: ast.Call) -> str:
    """The dtype that a call gives its tensor, as NumPy names it; "" where it gives none."""
    name = module.name(call.func) or ""
    if name in TYPED and not call.keywords:
        return TYPED[name]
    given = argument(call, "dtype")
    if name != "torch.tensor" or given is None or len(call.keywords) != 1:
        return ""
    return DTYPES.get((module.name(given) or "").removeprefix("torch."), "")


def _scalars(values: ast.ListComp | ast.List) -> bool:
    """Whether each element is surely one number: there is nothing to gain."""
    if isinstance(values, ast.List):
        return bool(values.elts)  # an empty one is filled in a loop
    element = values.elt
    if isinstance(element, ast.Constant | ast.Compare):
        return True
    called = ast.unparse(element.func) if isinstance(element, ast.Call) else ""
    return called in ("len", "int", "float", "bool", "max", "min", "sum")


def _through_numpy(script: Script, site: Site, call: ast.Call, dtype: str) -> None:
    source = script.source(site.file)
    numpy = script.module_name(site.file, "numpy", site)
    torch = script.module_name(site.file, "torch", site)
    values = source.text_of(call.args[0])
    text = f"{torch}.tensor({numpy}.array({values}, dtype={numpy}.{dtype}))"
    script.replace_call(source.site(call, site), text)


# --------------------------------------------------------------- rows filled element by element


def _filled_rows(module: Module, function: Function) -> Iterator[ast.For]:
    """Yield `for j, x in enumerate(row): out[i, j] = x`, where `out` is an array made here."""
    for node in inside(function):
        if isinstance(node, ast.For) and _row(module, node) is not None:
            yield node


def _row(module: Module, loop: ast.For) -> tuple[ast.expr, ast.Subscript, str] | None:
    """The row that a loop goes over, where it puts it, and what that is an array of."""
    head, target = loop.iter, loop.target
    if loop.orelse or len(loop.body) != 1 or not isinstance(loop.body[0], ast.Assign):
        return None
    if not isinstance(head, ast.Call) or dotted(head.func) != "enumerate" or len(head.args) != 1:
        return None
    if head.keywords or not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return None
    at, element = target.elts
    statement = loop.body[0]
    place = statement.targets[0]
    plain = isinstance(at, ast.Name) and isinstance(element, ast.Name)
    if not plain or len(statement.targets) != 1 or not isinstance(place, ast.Subscript):
        return None
    if ast.unparse(statement.value) != ast.unparse(element):
        return None
    if not isinstance(place.slice, ast.Tuple) or ast.unparse(place.slice.elts[-1]) != ast.unparse(
        at
    ):
        return None
    others, row = place.slice.elts[:-1], head.args[0]
    if not all(isinstance(each, ast.Name | ast.Constant) for each in others):
        return None
    if not _is_name(row) or not may_be_sequence(module.value(row)) or _read_outside(module, loop):
        return None
    of = _made_of(module, place.value, len(place.slice.elts))
    return (row, place, of) if of else None


def _read_outside(module: Module, loop: ast.For) -> bool:
    """Whether a name that the loop counts with is read elsewhere in its function."""
    scope, inside = module.function(loop), set(ast.walk(loop))
    counted = names_in(loop.target)
    return any(
        isinstance(each, ast.Name) and each.id in counted and each not in inside
        for each in (ast.walk(scope) if scope is not None else module.nodes)
    )


def _is_name(node: ast.expr) -> bool:
    return bool(dotted(node)) or (
        isinstance(node, ast.Subscript)
        and bool(dotted(node.value))
        and isinstance(node.slice, ast.Constant | ast.Name)
    )


def _made_of(module: Module, node: ast.expr, dimensions: int) -> str:
    """The library of whose arrays of so many dimensions a name is bound to one, once; or ""."""
    made = module.value(node) if isinstance(node, ast.Name) else None
    if not isinstance(made, ast.Call) or not made.args:
        return ""
    library, _, function = (module.name(made.func) or "").rpartition(".")
    shape = made.args[0]
    sizes = made.args if library == "torch" else [shape]
    sizes = shape.elts if isinstance(shape, ast.Tuple | ast.List) else sizes
    known = library in ("torch", "numpy") and function in MADE
    return library if known and len(sizes) == dimensions else ""


def _assigned_at_once(script: Script, site: Site, module: Module, loop: ast.For) -> None:
    found = _row(module, loop)
    assert found is not None
    row, place, of = found
    text, out = ast.unparse(row), ast.unparse(place.value)
    assert isinstance(place.slice, ast.Tuple)
    index = ", ".join([*(ast.unparse(each) for each in place.slice.elts[:-1]), f":len({text})"])
    value = text
    if of == "torch":
        torch = script.module_name(site.file, "torch", site)
        value = f"{torch}.as_tensor({text}, dtype={out}.dtype)"
    after = Site(site.file, loop.lineno, site.function)
    script.replace_statement(after, f"{out}[{index}] = {value}")
