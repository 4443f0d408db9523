"""A `PyDataset` that one worker loads, or that makes the same of its items in every epoch."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import cores, pays_later, saved_on, upper, worker_said
from trainperf.fixes.common.repeating import (
    INSIDE,
    MADE_ANEW,
    MOST,
    class_of_items,
    fixed_ahead,
    in_memory,
    leaves,
    move_part,
    without_docstring,
)
from trainperf.fixes.common.words import at, if_measured, ms, size
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import handed
from trainperf.source.bodies import function_of
from trainperf.source.effects import changing, effects, first, repeats
from trainperf.source.iterations import arguments, loaded, read_first, stored
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import called, parameters

QUEUE = 10
"""Keras's default `max_queue_size`: more workers than that need a longer queue."""

TENSORFLOW_CALLS = ("error_handler", "op_dispatch_handler")
"""The wrappers of TensorFlow's and Keras's functions. Their threads do not survive the
fork of a worker process."""


class KerasPydatasetWorkers(Fix):
    """Load the batches of a `PyDataset` in several workers.

    Why slow: A `PyDataset` makes its batches in one background thread
    unless told otherwise. Python runs one thread at a time, so it also takes turns with the
    training loop.
    Changes: `workers` is set to the cores there are, and `use_multiprocessing` to True: each
    worker is a process with a Python of its own. Batches still come in order. Where `__getitem__`
    calls TensorFlow, which does not survive a fork, or draws random numbers, which Keras does not
    seed in its processes (all would draw the same), workers stay threads.
    When not: When random numbers have to be the same from run to run, or one of your own classes,
    which trainperf does not look into, draws them: set `use_multiprocessing` to False. When the
    dataset holds an open file or connection: open it in `__getitem__`. When processes are spawned
    (Windows, macOS): the script needs `if __name__ == "__main__":`. When memory is short: each
    process holds what it touches.
    """

    framework = "keras"
    usual = 2.0

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a PyDataset with at most one worker, where there are cores for more."""
        loop, width = evidence.loop, cores(evidence)
        alone = loop.pydataset_arguments.get("workers", "not seen") in (None, 0, 1)
        if loop.input_kind != "PyDataset" or not alone or width < 2:
            return None
        drawn = loop.pydataset_random is True
        settings = _settings(evidence, width, drawn)
        lines = [f"train_data.{name} = {value}" for name, value in settings.items()]
        # Keras 3 starts its pool with `random_seed` None (`init_pool_generator`)
        threads = (
            ", as threads. Its batches draw random numbers: of processes all would draw the same, "
            "as Keras does not seed them"
        )
        costs = if_measured(lambda: f", {ms(evidence.times.input)} each")
        return Cause(
            title="One worker loads the batches",
            text=f"The `PyDataset` makes its batches in one worker{costs}, and there are {width} "
            "cores.",
            saves=Saving(
                upper(evidence, f"batches made on {width} cores at once"),
                lambda: saved_on(width, evidence.times.input),
                of="input",
            ),
            where=(loop.where,) if loop.where else (),
            advice=f"Let {width} workers make the batches{threads if drawn else ''}.",
            snippet="\n".join(lines),
            data=settings,
            equivalence=Equivalence.NUMERICS if drawn else self.equivalence,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the workers on the dataset just before `fit`."""
        site = finding.where[0]
        argument = script.argument(site, 0, "x")
        if argument is None:
            raise CannotRewrite("the call does not write out its dataset")
        dataset = script.name_argument(argument, "train_data", "batches")
        for name, value in finding.data.items():
            script.insert_before(site, f"{dataset}.{name} = {value}")


def _settings(evidence: Evidence, width: int, drawn: bool) -> dict[str, object]:
    """Return workers, processes unless TensorFlow runs in them, and a queue that feeds them."""
    loads = [function for function in evidence.functions if function.thread == "worker"]
    threads = drawn or any(function.calls_into in TENSORFLOW_CALLS for function in loads)
    given = evidence.loop.pydataset_arguments
    settings: dict[str, object] = {"workers": width}
    if not threads or given.get("use_multiprocessing"):
        settings["use_multiprocessing"] = not threads
    queue = given.get("max_queue_size")
    if width > (queue if isinstance(queue, int) else QUEUE):
        settings["max_queue_size"] = 2 * width
    return settings


class KerasPydatasetItems(Fix):
    """Make what is the same of an item of a `PyDataset` in every epoch once, and keep it.

    Why slow: `__getitem__` of a `PyDataset` opens, decodes and resizes the
    items of a batch again in every epoch, although only what it draws for them differs.
    Changes: Statements and calls that give the same for the same item (a path, an index) are moved
    into a function that keeps what it returned, in memory, by the item, and hands out copies. What
    is random stays where it is, and draws the same numbers.
    When not: When all items, those of other datasets of the class among them, do not fit the
    memory. When worker processes make the batches: what they kept ends with each epoch. When the
    dataset changes while training (`dataset.size = 128`), or files are written anew.
    """

    framework = "keras"
    usual = 1.7
    warm_up_epochs = 1  # the first one makes the items

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a PyDataset, in more than one epoch, all items of which fit the memory."""
        loop, free = evidence.loop, evidence.machine.memory_available
        processes = loop.pydataset_arguments.get("use_multiprocessing", True)
        if loop.input_kind != "PyDataset" or loop.pydataset_item is None or processes:
            return None
        if loop.epochs == 1 or not loop.batch_bytes or not loop.epoch_steps:
            return None
        batches = float(loop.batch_bytes * loop.epoch_steps * loop.batches_per_step)
        if batches * INSIDE >= MOST * free:
            return None
        users = (loop.where, loop.pydataset)
        costs = if_measured(lambda: f", {ms(evidence.times.input)} for each batch")
        return Cause(
            title="The same is made of each item again in every epoch",
            text=f"`__getitem__` ({at(loop.pydataset_item)}) of the `PyDataset` makes its items "
            f"again in every epoch{costs}.{worker_said(evidence)} Kept, what is the same of them "
            f"takes about {size(batches)}, at most {size(batches * INSIDE)}, of the {size(free)} "
            "of memory free.",
            saves=Saving(
                upper(evidence, "batches cost nothing from the second epoch on"),
                lambda: evidence.times.input,
                of="input",
            ),
            where=(loop.pydataset_item,),
            sure=pays_later(evidence, lambda: evidence.bound_if_input_saves(evidence.times.input)),
            data={"files": [site.file for site in users if site is not None]},
            rewritable=True,
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """Keep nothing where batches come from processes: Keras ends them with each epoch."""
        if not other.data.get("use_multiprocessing"):
            return ""
        return "worker processes end with each epoch, and what they kept with them"

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Move what is the same of an item into a function whose results are kept.

        "files" of the data use the dataset. Raises `CannotRewrite` where the source does not show
        that anything that costs stays the same from epoch to epoch.
        """
        site = finding.where[0]
        function, module = script.definition(site), script.linked(site.file)
        owner = class_of_items(module, function)
        others = [file for file in finding.data["files"] if file != site.file]
        search = _Search([module, *(script.source(file).module for file in others)], owner)
        parts = list(search.in_function(function, set(parameters(function)[1:])))[:MOST_PARTS]
        if not parts:
            because = f": {search.why}" if search.why else ""
            raise CannotRewrite(
                f"nothing that costs is sure to be the same in every epoch{because}"
            )
        names = {name: script.module_name(site.file, name) for name in ("functools", "copy")}
        once = script.free_name(site.file, "made_once")
        script.insert_function(site.file, in_memory(once, **names))
        named: dict[str, str] = {}
        for part in parts:
            text = "".join(map(ast.dump, part.nodes))
            if text not in named:
                named[text] = script.free_name(site.file, "made_item", beside=named.values())
            _keep(script, site, part, once, named[text])


MOST_PARTS = 4

_COMPREHENSIONS = ast.ListComp | ast.GeneratorExp

_LIGHT = frozenset(
    {
        "arange", "array", "asarray", "astype", "basename", "concatenate", "copy", "dirname",
        "empty", "empty_like", "expand_dims", "exists", "flatten", "float32", "float64", "format",
        "full", "get", "index", "int32", "int64", "isfile", "item", "join", "lower", "ones",
        "ones_like", "ravel", "replace", "reshape", "rstrip", "split", "splitext", "squeeze",
        "stack", "startswith", "strip", "take", "to_categorical", "to_list", "to_numpy", "tolist",
        "transpose", "uint8", "upper", "zeros", "zeros_like", "append", "extend", "ceil", "floor",
        "endswith", "items", "keys", "values",
    }
)  # fmt: skip
"""Last names of functions and methods that take next to nothing."""

_TEXT = frozenset({"format", "item", "join", "lower", "replace", "strip", "upper", "zfill"})
"""Methods and functions that give one number or text."""


@dataclass(frozen=True)
class Part:
    """Statements, or an expression, that make the same of the same `given` names."""

    function: Function
    nodes: Sequence[ast.stmt] | Sequence[ast.expr]
    given: list[str]


def _keep(script: Script, site: Site, part: Part, once: str, name: str) -> None:
    given, first = ["self", *part.given], part.nodes[0]
    if isinstance(first, ast.stmt):
        statements = [node for node in part.nodes if isinstance(node, ast.stmt)]
        head = Site(site.file, part.function.lineno, site.function)
        move_part(script, head, statements, once, name, given)
        return
    listed, place = ", ".join(given), script.site_of(site, first)
    script.expression_into_function(place, f"@{once}\ndef {name}({listed}):", f"{name}({listed})")


class _Search:
    """Goes through what makes a batch for parts that may be kept by what they are given.

    `known` are names that tell an item: the index, what a loop over the batch gives, what is
    looked up with these. `why` is what was in the way last: of the
    smallest piece of code that was looked at.
    """

    def __init__(self, modules: list[Module], owner: ast.ClassDef) -> None:
        self.modules, self.module, self.owner = modules, modules[0], owner
        self.why = ""
        self._seen: set[Function] = set()

    def in_function(self, function: Function, known: set[str]) -> Iterator[Part]:
        """Yield the parts of a method that is given names which tell an item."""
        self._seen.add(function)
        yield from self._block(function, without_docstring(function), known)

    def _block(
        self, function: Function, body: Sequence[ast.stmt], known: set[str]
    ) -> Iterator[Part]:
        known, start = set(known), 0
        while start < len(body):
            run = fixed_ahead(
                self.module,
                function,
                body[start:],
                lambda fixed: self._fits(function, fixed, known),  # noqa: B023
            )
            if _works(self.module, run):
                yield Part(function, run, self._given(function, run))
            else:
                run = [body[start]]
                yield from self._statement(function, body[start], known)
            for statement in run:
                value = None
                if isinstance(statement, ast.Assign | ast.AnnAssign):
                    value = statement.value
                key = value is not None and _is_key(self.module, value, known)
                bound = stored([statement])
                known = known | bound if key else known - bound
            start += len(run)

    def _statement(self, function: Function, node: ast.AST, known: set[str]) -> Iterator[Part]:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            return
        if isinstance(node, ast.For):
            yield from self._statement(function, node.iter, known)
            within = (known - stored(node.body)) | _told(node.target, node.iter)
            yield from self._block(function, node.body, within)
            return
        if isinstance(node, _COMPREHENSIONS):
            for loop in node.generators:
                yield from self._statement(function, loop.iter, known)
                known = known | _told(loop.target, loop.iter)
            yield from self._statement(function, node.elt, known)
            return
        if isinstance(node, ast.Call):
            kept = not leaves(node) and self._fits(function, [node], known)
            if kept and _works(self.module, [node]):
                yield Part(function, [node], self._given(function, [node]))
                return
            yield from self._method(node, known)
        for block in ("body", "orelse", "finalbody"):
            inner = getattr(node, block, None)
            if isinstance(inner, list):
                yield from self._block(function, inner, known)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt):
                yield from self._statement(function, child, known)

    def _method(self, call: ast.Call, known: set[str]) -> Iterator[Part]:
        """The parts of a method of the dataset that only this call runs."""
        method = function_of(self.module, call.func)
        if not isinstance(method, FUNCTIONS) or method not in self.owner.body:
            return
        uses = [node for node in self.module.nodes if isinstance(node, ast.Attribute)]
        alone = [node.attr for node in uses].count(method.name) == 1
        plain = parameters(method)[:1] == ["self"] and not method.decorator_list
        if alone and plain and method not in self._seen:
            given = handed(method, call)
            told = {name for name, value in given if _is_key(self.module, value, known)}
            yield from self.in_function(method, told)

    def _fits(self, function: Function, nodes: Sequence[ast.AST], known: set[str]) -> bool:
        """Whether some code makes the same again of the same items and changes nothing."""
        found = first(effects(self.module, nodes), "writes", *MADE_ANEW)
        if found is not None:
            again = "may give another result"
            does = {"writes": "writes", "draws": again, "unknown": again}
            self.why = f"{found.text} {does.get(found.kind, 'changes')}"
            return False
        if not set(self._given(function, nodes)) <= known:
            return False
        if changed := changing(self.modules, self.owner, nodes):
            self.why = f"{changed} changes after the dataset was built"
        return not changed

    def _given(self, function: Function, nodes: Sequence[ast.AST]) -> list[str]:
        """The names that some code has from its function."""
        within = (node for node in ast.walk(function) if isinstance(node, ast.comprehension))
        own = stored(function.body) | arguments(function) | stored(n.target for n in within)
        body = [ast.Expr(node) if isinstance(node, ast.expr) else node for node in nodes]
        return read_first(body, (own & loaded(nodes)) - {"self"})  # type: ignore[arg-type]


def _told(target: ast.expr, source: ast.expr) -> set[str]:
    """The names that a loop gives and that tell an item; a table's row cannot be looked up."""
    rows = any(isinstance(n, ast.Attribute) and n.attr == "iterrows" for n in ast.walk(source))
    return set() if rows else stored([target])


def _works(module: Module, nodes: Iterable[ast.AST]) -> bool:
    """Whether some code calls anything that may take long."""
    for call in (part for node in nodes for part in ast.walk(node) if isinstance(part, ast.Call)):
        name = module.name(call.func)
        plain = name is not None and name != "open" and hasattr(builtins, name)
        if called(call) not in _LIGHT and not plain:
            return True
    return False


def _is_key(module: Module, node: ast.expr, known: set[str]) -> bool:
    """Whether a value may tell an item, and be looked up by: a number, a text, a tuple of them.

    It need not be made of what is known to tell one, as long as nothing is drawn for it. What
    turns out to be an array, the trial shows.
    """
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Tuple):
        return all(_is_key(module, part, known) for part in node.elts)
    if isinstance(node, ast.BinOp):
        return all(_is_key(module, part, known) for part in (node.left, node.right))
    if isinstance(node, ast.Call):
        plain = module.name(node.func) in ("int", "str", "os.path.join") or called(node) in _TEXT
        return plain and repeats(module, node)
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Slice) and repeats(module, node)
    if isinstance(node, ast.JoinedStr):
        return repeats(module, node)
    return isinstance(node, ast.Constant | ast.Attribute)
