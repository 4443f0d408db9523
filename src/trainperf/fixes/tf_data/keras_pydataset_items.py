"""A `PyDataset` that makes the same of its items again in every epoch."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import input_at_most, known, upper
from trainperf.fixes.common.repeating import (
    INSIDE,
    MOST,
    changing,
    class_of_items,
    fixed_ahead,
    in_memory,
    leaves,
    move_part,
    not_repeated,
    repeats,
    without_docstring,
)
from trainperf.fixes.common.words import SMALLEST_GAIN, at, ms, percent, size, worth
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import handed
from trainperf.source.bodies import function_of, reached
from trainperf.source.iterations import arguments, loaded, read_first, stored
from trainperf.source.module import Module
from trainperf.source.mutations import changes_shared
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import called, parameters

ADVICE = "Make what is the same of an item in every epoch once, and keep it."

KEPT = """\
@made_once  # keeps what it returned for an item
def load(self, path):
    return resize(decode(path))

def __getitem__(self, index):
    return np.stack([augment(self.load(path)) for path in self.batch(index)])"""


class PyDatasetItems(Fix):
    """Make what is the same of an item of a `PyDataset` in every epoch once, and keep it.

    ## Why it is slow
    `__getitem__` of a `PyDataset` (`Sequence` in Keras 2) opens, decodes and resizes the items of
    a batch again in every epoch, although only what it draws for them differs.

    ## What changes
    Statements and calls that give the same for the same item (a path, an index) are moved into
    a function that keeps what it returned, in memory, by the item. Each caller gets a copy where it
    might change it. What is random stays where it is, and draws the same numbers.

    ## When not to
    When all items do not fit the memory, or there is one epoch only. Other datasets of the same
    class (validation) are kept as well.
    When worker processes make the batches: Keras starts them anew in each epoch, and what they kept
    is lost. Threads share it.
    When the dataset changes while training (`dataset.size = 128`), or files are written anew: no
    edit is written where the source shows that.
    """

    category = "input"
    framework = "keras"
    usual = 1.7
    equivalence = Equivalence.EXACT
    warm_up_epochs = 1  # the first one makes the items

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a PyDataset whose batches the model waits for, in more than one epoch."""
        held, epochs = _held(evidence), evidence.loop.epochs
        if held is None or not evidence.input_bound:
            return None
        bound = evidence.bound_if_input_saves(evidence.times.input)
        if not worth(evidence, bound if epochs is None else epochs / (1 + (epochs - 1) / bound)):
            return None
        text = (
            f"{_maker(evidence)} takes {ms(evidence.times.input)} for each batch, in every epoch."
            f"{_hot(evidence)} What is the same of an item in every epoch has to be made only "
            f"once; kept, it takes {_room(evidence, held)}."
        )
        return self._finding(
            evidence, text, bound, upper(evidence, "batches cost nothing from the second epoch on")
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try to keep what fits, wherever batches may be what the model waits for."""
        held, most = _held(evidence), input_at_most(evidence)
        if held is None or most <= 1 + SMALLEST_GAIN:
            return None
        text = (
            f"{_maker(evidence)} makes its items again in every epoch; kept, what is the same of "
            f"them takes {_room(evidence, held)}."
        )
        return self._finding(
            evidence, text, known(most), upper(evidence, "input costs nothing once items are kept")
        )

    def _finding(self, evidence: Evidence, text: str, bound: float | None, basis: str) -> Finding:
        loop = evidence.loop
        users = (loop.where, loop.pydataset)
        return self.finding(
            title="The same is made of each item again in every epoch",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=(loop.pydataset_item,) if loop.pydataset_item else (),
            advice=ADVICE,
            snippet=KEPT,
            data={"files": [each.file for each in users if each is not None]},
            rewritable=True,
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """Keep nothing where batches come from processes: Keras ends them with each epoch."""
        if not other.data.get("use_multiprocessing"):
            return ""
        return "worker processes end with each epoch, and what they kept with them"

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Move what is the same of an item into a function whose results are kept."""
        keep_items(script, finding.where[0], finding.data["files"])


def _held(evidence: Evidence) -> float | None:
    """The bytes that all items take at most; None where nothing is to be kept."""
    loop = evidence.loop
    processes = loop.pydataset_arguments.get("use_multiprocessing", True)
    kept = loop.input_kind == "PyDataset" and loop.pydataset_item is not None and not processes
    if not kept or loop.epochs == 1 or not loop.batch_bytes or not loop.epoch_steps:
        return None
    turns = loop.epoch_steps * loop.batches_per_step
    held = float(loop.batch_bytes * turns * INSIDE)
    return held if held < MOST * evidence.machine.memory_available else None


def _room(evidence: Evidence, held: float) -> str:
    """Say what all items take, as large as they are in a batch or before it, of what is free."""
    free = size(evidence.machine.memory_available)
    return f"about {size(held / INSIDE)}, at most {size(held)}, of the {free} of memory free"


def _maker(evidence: Evidence) -> str:
    place = evidence.loop.pydataset_item
    return f"`__getitem__`{'' if place is None else f' ({at(place)})'} of the `PyDataset`"


def _hot(evidence: Evidence) -> str:
    """Name the user's function in which the thread that makes batches was found most often."""
    makers = [each for each in evidence.functions if each.thread == "worker"]
    most = max(makers, key=lambda each: each.share, default=None)
    if most is None:
        return ""
    place = at(Site(most.file, most.line))
    return f" Its thread was found in `{most.name}` ({place}) in {percent(most.share)} of samples."


MOST_PARTS = 4

_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

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

_WRITES = re.compile(
    r"^(save|savez|dump|to_csv|to_parquet|to_pickle|tofile|im_?write|im_?save)"
    r"|^(print|write\w*|makedirs|mkdir|unlink|remove|rename|log|debug|info|warn\w*)$"
)
"""Names of functions that write a file, or a line."""


@dataclass(frozen=True)
class Part:
    """Statements, or an expression, that make the same of the same `given` names."""

    function: Function
    nodes: Sequence[ast.stmt] | Sequence[ast.expr]
    given: list[str]


def keep_items(script: Script, site: Site, files: Sequence[str]) -> None:
    """Have the `__getitem__` whose head is at `site` make once what it makes the same of an item.

    `files` use the dataset. Raises `CannotRewrite` where the source does not show that anything
    that costs stays the same from epoch to epoch.
    """
    function, module = script.definition(site), script.linked(site.file)
    owner = class_of_items(module, function)
    others = [script.source(name).module for name in files if name != site.file]
    search = _Search([module, *others], owner)
    parts = list(search.in_function(function, set(parameters(function)[1:])))[:MOST_PARTS]
    if not parts:
        because = f": {search.why}" if search.why else ""
        raise CannotRewrite(f"nothing that costs is sure to be the same in every epoch{because}")
    modules = ["functools"]
    if not all(_is_copied(module, part) for part in parts):
        modules += ["copy"]
    names = {each: script.module_name(site.file, each) for each in modules}
    once = script.free_name(site.file, "made_once")
    script.insert_function(site.file, in_memory(once, **names))
    named: dict[str, str] = {}
    for part in parts:
        text = "".join(map(ast.dump, part.nodes))
        if text not in named:
            named[text] = script.free_name(site.file, "made_item", beside=named.values())
        _keep(script, site, part, once, named[text])


def _keep(script: Script, site: Site, part: Part, once: str, name: str) -> None:
    given, first = ["self", *part.given], part.nodes[0]
    if isinstance(first, ast.stmt):
        statements = [each for each in part.nodes if isinstance(each, ast.stmt)]
        rest = _outside(part.function, statements)
        move_part(script, site, statements, rest, once, name, given)
        return
    listed, place = ", ".join(given), script.site_of(site, first)
    script.expression_into_function(place, f"@{once}\ndef {name}({listed}):", f"{name}({listed})")


def _is_copied(module: Module, part: Part) -> bool:
    """Whether all that becomes of a part is to be written into an array of NumPy: `x[i] = …`."""
    above = module.parent(part.nodes[0])
    if not isinstance(above, ast.Assign) or above.value is not part.nodes[0]:
        return False
    targets = [each.value for each in above.targets if isinstance(each, ast.Subscript)]
    arrays = [module.value(each) for each in targets]
    return len(targets) == len(above.targets) and all(
        isinstance(each, ast.Call) and (module.name(each.func) or "").startswith("numpy.")
        for each in arrays
    )


def _outside(function: Function, part: Iterable[ast.AST]) -> list[ast.AST]:
    """The nodes of a function that hold nothing of some statements, and are not held by them."""
    moved = {id(each) for each in part}
    inside = {id(node) for each in part for node in ast.walk(each)}
    return [
        node
        for node in ast.walk(function)
        if id(node) not in inside and moved.isdisjoint(id(each) for each in ast.walk(node))
    ]


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
                body[start:],
                lambda fixed: _outside(function, fixed),
                lambda fixed: self._fits(function, fixed, known),  # noqa: B023
            )
            if _works(self.module, run):
                yield Part(function, run, self._given(function, run))
            else:
                run = [body[start]]
                yield from self._statement(function, body[start], known)
            for statement in run:
                known = self._behind(statement, known)
            start += len(run)

    def _behind(self, statement: ast.stmt, known: set[str]) -> set[str]:
        """The names that tell an item behind a statement."""
        bound = stored([statement])
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        key = value is not None and _is_key(self.module, value, known)
        return known | bound if key else known - bound

    def _statement(self, function: Function, node: ast.AST, known: set[str]) -> Iterator[Part]:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            return
        if isinstance(node, ast.For):
            yield from self._statement(function, node.iter, known)
            within = (known - stored(node.body)) | self._told([node.target], node.iter)
            yield from self._block(function, node.body, within)
            return
        if isinstance(node, ast.While):
            yield from self._block(function, node.body, known - stored(node.body))
            return
        if isinstance(node, _COMPREHENSIONS):
            for each in node.generators:
                yield from self._statement(function, each.iter, known)
                known = known | self._told([each.target], each.iter)
            made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            for part in made:
                yield from self._statement(function, part, known)
            return
        if isinstance(node, ast.Call):
            if self._fits(function, [node], known, alone=True) and _works(self.module, [node]):
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

    def _told(self, targets: list[ast.expr], source: ast.expr) -> set[str]:
        """The names that a loop gives and that tell an item; a table's row cannot be looked up."""
        rows = any(isinstance(n, ast.Attribute) and n.attr == "iterrows" for n in ast.walk(source))
        return set() if rows else stored(targets)

    def _method(self, call: ast.Call, known: set[str]) -> Iterator[Part]:
        """The parts of a method of the dataset that only this call runs."""
        method = function_of(self.module, call.func)
        if not isinstance(method, FUNCTIONS) or method not in self.owner.body:
            return
        uses = [n for n in self.module.nodes if isinstance(n, ast.Attribute)]
        alone = len([each for each in uses if each.attr == method.name]) == 1
        plain = parameters(method)[:1] == ["self"] and not method.decorator_list
        if alone and plain and method not in self._seen:
            given = handed(method, call)
            told = {name for name, value in given if _is_key(self.module, value, known)}
            yield from self.in_function(method, told)

    def _fits(
        self, function: Function, nodes: Sequence[ast.AST], known: set[str], alone: bool = False
    ) -> bool:
        """Whether some code makes the same again of the same items and changes nothing."""
        if alone and any(leaves(each) for each in nodes):
            return False
        drawn = next((found for one in nodes if (found := not_repeated(self.module, one))), "")
        if drawn:
            return self._because(f"{drawn} may give another result")
        written = _writes(self.module, nodes)
        if written:
            return self._because(f"{written} writes")
        if changes_shared(self.module, nodes):  # type: ignore[arg-type]
            return False
        if not set(self._given(function, nodes)) <= known:
            return False
        changed = changing(self.modules, self.owner, nodes)
        return not changed or self._because(f"{changed} changes after the dataset was built")

    def _because(self, why: str) -> bool:
        self.why = why
        return False

    def _given(self, function: Function, nodes: Sequence[ast.AST]) -> list[str]:
        """The names that some code has from its function."""
        within = (n for n in ast.walk(function) if isinstance(n, ast.comprehension))
        own = stored(function.body) | arguments(function) | stored(n.target for n in within)
        body = [ast.Expr(each) if isinstance(each, ast.expr) else each for each in nodes]
        return read_first(body, (own & loaded(nodes)) - {"self"})  # type: ignore[arg-type]


def _works(module: Module, nodes: Iterable[ast.AST]) -> bool:
    """Whether some code calls anything that may take long."""
    calls = [n for each in nodes for n in ast.walk(each) if isinstance(n, ast.Call)]
    return any(called(each) not in _LIGHT and not _light_builtin(module, each) for each in calls)


def _light_builtin(module: Module, call: ast.Call) -> bool:
    name = module.name(call.func)
    return name is not None and name != "open" and hasattr(builtins, name)


def _writes(module: Module, nodes: Iterable[ast.AST]) -> str:
    """Return the call with which some code, or a function that it calls, writes; '' if none."""
    for node in reached(module, nodes):
        if isinstance(node, ast.Call) and (_WRITES.search(called(node)) or _to_write(node)):
            return f"{ast.unparse(node.func)}()"
    return ""


def _to_write(call: ast.Call) -> bool:
    """Whether a file is opened to be written."""
    modes = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "mode")]
    given = [str(each.value) for each in modes if isinstance(each, ast.Constant)]
    return called(call) == "open" and any(set("wax+") & set(mode) for mode in given)


def _is_key(module: Module, node: ast.expr, known: set[str]) -> bool:
    """Whether a value may tell an item, and be looked up by: a number, a text, a tuple of them.

    It need not be made of what is known to tell one, as long as nothing is drawn for it. What
    turns out to be an array, the trial shows.
    """
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Slice) and repeats(module, node)
    if isinstance(node, ast.Call):
        plain = module.name(node.func) in ("int", "str", "os.path.join") or called(node) in _TEXT
        return plain and repeats(module, node)
    if isinstance(node, ast.Tuple):
        return all(_is_key(module, each, known) for each in node.elts)
    if isinstance(node, ast.BinOp):
        return all(_is_key(module, each, known) for each in (node.left, node.right))
    if isinstance(node, ast.JoinedStr):
        return repeats(module, node)
    return isinstance(node, ast.Constant | ast.Attribute)
