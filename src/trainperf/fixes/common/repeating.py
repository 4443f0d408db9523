"""Source that gives the same in every epoch: the part of a `__getitem__`, a whole generator."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.bodies import function_of, reached, reached_elsewhere
from trainperf.source.iterations import loaded, stored
from trainperf.source.module import Module, inside
from trainperf.source.mutations import STREAMS, filled
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import Function, called, parameters, root, walk

RANDOM = re.compile(
    r"^r?sample$|^rand|random|_rand|shuffle|permut|choice|choose|bernoulli|multinomial|uniform"
    r"|^normal_?$|integers|dropout|^aug|augment|jitter|noise|perturb|mix_?up|cut_?out|transform"
    r"|uuid|urandom|^time$|^now$|^today$|perf_counter",
    re.IGNORECASE,
)
"""Names of what draws random numbers, reads the clock, or may do so."""

KNOWN = (
    "numpy", "PIL", "cv2", "torch", "os", "json", "io", "math", "pathlib", "pandas", "scipy",
    "skimage", "soundfile", "librosa", "torchaudio", "imageio", "h5py", "csv", "pickle", "re",
    "string", "tifffile", "pydicom", "nibabel", "struct", "gzip", "base64", "itertools",
    "functools", "operator", "collections", "unicodedata", "torchvision.io",
    "torchvision.transforms.functional", "torchvision.transforms.v2.functional",
    "keras.applications", "keras.preprocessing", "keras.utils", "tensorflow.image", "tensorflow.io",
)  # fmt: skip
"""Modules whose functions give the same for the same arguments, those named as random aside."""

LOADS = re.compile(r"^(load|read|open|im_?read|decode|parse|tokeni[sz]e|pil)(_|$)|_loader$")
"""Names of functions of other files of the user's that read what is there."""

SAMPLERS = tuple(
    f"torch.utils.data.{name}"
    for name in ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")
)
"""Objects that draw when they are gone through, not when they are made."""

LATER = ("on_epoch_begin", "on_epoch_end")
"""Methods of a dataset that Keras calls between epochs, whoever else calls them."""

PARAMETERS = ("grad", "weight", "bias")
"""Attributes that are a model's parameter, or its gradient."""

LISTED = ("parameters", "named_parameters")
"""What names a model's parameters one by one."""

HELD = re.compile(r"token|vocab|loader|decode|encode|resize|normali[sz]e|to_?tensor", re.IGNORECASE)
"""Names of what an object holds that may be called: it makes the same of the same."""


def fixed_statements(module: Module, function: Function) -> list[ast.stmt]:
    """Return the statements that a function begins with and that make the same of the same index.

    Its docstring is left out. They end ahead of the first that draws random numbers or may do
    so, that leaves the function, or that changes something beyond it; what they bind and later
    ones read is bound whatever the way through them. Empty where they do no work.
    """
    body = without_docstring(function)
    return fixed_ahead(module, body, lambda fixed: body[len(fixed) :])


def without_docstring(function: Function) -> list[ast.stmt]:
    """Return the statements of a function that do something."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def fixed_ahead(
    module: Module,
    body: Sequence[ast.stmt],
    rest: Callable[[list[ast.stmt]], Iterable[ast.AST]],
    fits: Callable[[list[ast.stmt]], bool] = lambda _: True,
) -> list[ast.stmt]:
    """Return those of `fixed_statements` that any statements begin with.

    `rest` gives what may read what they bind; `fits` what else is asked of all of them.
    """
    fixed: list[ast.stmt] = []
    for statement in body:
        if leaves(statement) or not repeats(module, statement) or not fits([*fixed, statement]):
            break
        fixed.append(statement)
    while fixed and not bound_names(fixed, rest(fixed))[1]:
        fixed.pop()
    return fixed if any(isinstance(each, ast.Call) for each in walk(fixed)) else []


def repeats(module: Module, node: ast.AST, seen: frozenset[int] = frozenset()) -> bool:
    """Whether all that is called in `node` is known to give the same for the same arguments."""
    return not not_repeated(module, node, seen)


def not_repeated(module: Module, node: ast.AST, seen: frozenset[int] = frozenset()) -> str:
    """Return the first call in `node` that may give something else each time, '' if none does."""
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    found = next((each for each in calls if not _call_repeats(module, each, seen)), None)
    return "" if found is None else f"{ast.unparse(found.func)}()"


def _call_repeats(module: Module, call: ast.Call, seen: frozenset[int]) -> bool:
    own = function_of(module, call.func)
    if own is not None:
        return id(own) in seen or repeats(module, own, seen | {id(own)})
    imported = module.defined(call.func)
    if imported is not None and isinstance(imported[1], FUNCTIONS):  # of another of their files
        within = seen | {id(imported[1])}
        return id(imported[1]) in seen or repeats(*imported, within)
    made = module.definition(call.func)
    if isinstance(made, ast.ClassDef):
        inits = [n for n in made.body if isinstance(n, FUNCTIONS) and n.name == "__init__"]
        return all(repeats(module, each, seen | {id(each)}) for each in inits)
    name = module.name(call.func)
    if name in SAMPLERS:
        return True
    last = (name or ast.unparse(call.func)).rpartition(".")[2]
    if RANDOM.search(last) and not (name or "").startswith("torchvision.transforms."):
        return False
    if name == "next":  # of a stream, or the first of some that are made here
        return bool(call.args) and isinstance(call.args[0], ast.GeneratorExp | ast.ListComp)
    if name is not None:
        plain = hasattr(builtins, name) and name != "input"
        known = any(name.startswith(f"{each}.") for each in KNOWN)
        return plain or (known and ".random" not in name) or LOADS.search(last) is not None
    if not isinstance(call.func, ast.Attribute):
        return False
    if root(call.func) == "self" and isinstance(call.func.value, ast.Name):
        return HELD.search(call.func.attr) is not None  # an object of the dataset, called
    return "rng" not in ast.unparse(call.func)


def leaves(statement: ast.AST) -> bool:
    """Whether some code cannot stand in another function, or keeps something beyond it."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom | ast.Await | ast.Global):
            return True
        if isinstance(node, ast.Nonlocal | ast.ClassDef | ast.NamedExpr | ast.Delete):
            return True
        if isinstance(node, ast.Attribute) and _private(node.attr):
            return True
        if isinstance(node, ast.Name) and node.id == "super":  # has no meaning outside the class
            return True
        if _changes_self(node):
            return True
    return False


def _changes_self(node: ast.AST) -> bool:
    """Whether `self.x` is set, or something is added to, taken from or read of what it holds."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        return not isinstance(node.ctx, ast.Load) and root(node) == "self"
    if not isinstance(node, ast.Call):
        return False
    reads_on = called(node) in STREAMS and not node.args and not node.keywords
    return any(root(each) == "self" for each in (*filled(node), *([node.func] if reads_on else ())))


def _private(name: str) -> bool:
    """Whether a name is mangled within a class."""
    return name.startswith("__") and not name.endswith("__")


def bound_names(fixed: list[ast.stmt], rest: Iterable[ast.AST]) -> tuple[list[str], bool]:
    """Return what `fixed` binds and `rest` reads, in order, and whether all of it surely is."""
    found = stored(fixed) & loaded(rest)  # what is imported or defined cannot be kept
    order = dict.fromkeys(node.id for node in walk(fixed) if isinstance(node, ast.Name))
    return [name for name in order if name in found], bool(found) and found <= _surely(fixed)


def _surely(body: Iterable[ast.stmt]) -> set[str]:
    """Names that are bound whichever way a block is gone through."""
    sure: set[str] = set()
    for node in body:
        if isinstance(node, ast.If):
            sides = [_surely(side) for side in (node.body, node.orelse) if not _raises(side)]
            sure |= set.intersection(*sides) if sides else set()
        elif isinstance(node, ast.With):
            sure |= _surely(node.body)
            sure |= {n.id for item in node.items if item.optional_vars is not None
                     for n in ast.walk(item.optional_vars) if isinstance(n, ast.Name)}  # fmt: skip
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            sure |= {n.id for t in targets for n in ast.walk(t)
                     if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
    return sure


def _raises(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def changing_attribute(
    modules: Iterable[Module], owner: ast.ClassDef | None, read: Iterable[str]
) -> str:
    """Return an attribute of those read that is changed after the dataset was built, else ''.

    That is one which a method sets that not only the constructor calls, or other code does.
    `owner` is the dataset's class, None where that is a library's.
    """
    wanted = set(read)
    building = set() if owner is None else _building(owner)
    for module in modules:
        found = (each for node in module.nodes for each in _changed_attributes(node))
        for changed in (each for each in found if each.attr in wanted):
            if _of_parameter(module, changed.value, wanted):
                continue
            function = module.function(changed)
            in_init = isinstance(function, FUNCTIONS) and function.name == "__init__"
            if not in_init and function not in building:
                return ast.unparse(changed)
    return ""


def _of_parameter(module: Module, owner: ast.expr, wanted: set[str]) -> bool:
    """Whether the owner of an attribute is a model's parameter or gradient: no dataset."""
    if isinstance(owner, ast.Attribute):
        return owner.attr in PARAMETERS and owner.attr not in wanted
    if not isinstance(owner, ast.Name):
        return False
    found = module.bindings(owner) or []
    return bool(found) and all(
        isinstance(each.node, ast.For) and _lists_parameters(each.node.iter) for each in found
    )


def _lists_parameters(iterated: ast.expr) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr in LISTED)
        or (isinstance(node, ast.Constant) and node.value == "params")
        for node in ast.walk(iterated)
    )


def _changed_attributes(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes `x.name` that a node sets, fills, mixes, adds to or takes from."""
    targets = filled(node) if isinstance(node, ast.Call) else []
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        targets = [node]
    for target in targets:
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute):
            yield target


def _building(owner: ast.ClassDef) -> set[Function]:
    """The methods of a class that only its constructor runs."""
    methods = {each.name: each for each in owner.body if isinstance(each, FUNCTIONS)}
    if "__init__" not in methods:
        return set()
    found = {"__init__"}
    for _ in methods:
        for name in methods.keys() - set(LATER):
            callers = {
                caller
                for caller, method in methods.items()
                for node in inside(method, functions=True)
                if isinstance(node, ast.Attribute) and node.attr == name
            }
            if callers and callers <= found:
                found.add(name)
    return {methods[name] for name in found}


def changing_name(module: Module, body: Iterable[ast.AST]) -> str:
    """Return a name of the module that nodes read and that changes as it runs, else ''."""
    for node in body:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found = module.bindings(node) or []
            if found is module.top.bindings.get(node.id) and any(
                each.kind == "loop" or module.loops(each.node) or module.function(each.node)
                for each in found
            ):
                return node.id
    return ""


MOST = 0.5
"""Share of the memory, or of the disk, that is free, which kept items may take."""

INSIDE = 4
"""The start of an item (a picture before it was cropped) may be so many times as large."""

_IN_MEMORY = '''\
def {name}(make):
    """Keep in memory what `make` returned for {item} when it was first asked for."""

    @{functools}.wraps(make)
    def kept(self, {given}):
{unless}        made = self.__dict__.setdefault("made_by_" + make.__name__, {{}})
        if {key} not in made:
            made[{key}] = make(self, {given})
        return {returned}

    return kept
'''

_UNLESS = """\
        if not isinstance(index, {numbers}.Integral):
            return make(self, index)
"""


def in_memory(name: str, *, functools: str, numbers: str = "", copy: str = "") -> str:
    """Return the source of the decorator `name` that keeps what a method makes.

    The other names are modules'.

    With `numbers` it is kept by a whole number and nothing else, without by all arguments,
    which have to be hashable. With `copy` each caller gets a copy of its own.
    """
    key = "index" if numbers else "item"
    return _IN_MEMORY.format(
        name=name,
        item="an index" if numbers else "an item",
        functools=functools,
        given=key if numbers else f"*{key}",
        unless=_UNLESS.format(numbers=numbers) if numbers else "",
        key=key,
        returned=f"{copy}.deepcopy(made[{key}])" if copy else f"made[{key}]",
    )


def class_of_items(module: Module, function: Function) -> ast.ClassDef:
    """Return the class of a plain `__getitem__(self, index)`; raises `CannotRewrite`."""
    owner = module.parent(function)
    if not isinstance(owner, ast.ClassDef) or module.parent(owner) is not module.top.node:
        raise CannotRewrite("its class does not stand at the top of its file")
    plain = not (function.args.kwonlyargs or function.args.vararg or function.args.kwarg)
    if isinstance(function, ast.AsyncFunctionDef) or function.decorator_list or not plain:
        raise CannotRewrite("its __getitem__ is no plain method")
    if parameters(function)[:1] != ["self"] or len(parameters(function)) != 2:
        raise CannotRewrite("its __getitem__ takes more than an index")
    if any("__slots__" in ast.unparse(each) for each in owner.body):
        raise CannotRewrite("its class has __slots__: nothing can be kept in its objects")
    return owner


def changing(modules: Sequence[Module], owner: ast.ClassDef, body: Iterable[ast.AST]) -> str:
    """Return what some code of a dataset reads and that changes after it was built, else ''.

    The code stands in the first of the modules; the others may change what it reads.
    """
    nodes = list(reached(modules[0], body))
    read = [each.attr for each in nodes if isinstance(each, ast.Attribute) and root(each)]
    used = ((modules[0], nodes), *reached_elsewhere(modules[0], nodes))
    return changing_attribute(modules, owner, read) or next(
        (name for there, each in used if (name := changing_name(there, each))), ""
    )


def move_part(
    script: Script,
    site: Site,
    part: list[ast.stmt],
    rest: Iterable[ast.AST],
    once: str,
    name: str,
    given: Sequence[str],
) -> None:
    """Move statements into a function `name` of `given`; `rest` reads the result.

    It is kept by the decorator `once`.
    """
    names, _ = bound_names(part, rest)
    listed, made = ", ".join(given), ", ".join(names)
    script.move_into_function(
        at_statement(site, part[0]),
        at_statement(site, part[-1]),
        f"@{once}\ndef {name}({listed}):",
        f"return {made}",
        f"{made} = {name}({listed})",
    )


def at_statement(site: Site, node: ast.stmt) -> Site:
    """Return where a statement of the function at `site` stands."""
    return Site(site.file, node.lineno, site.function)
