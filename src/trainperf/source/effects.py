"""What a piece of code does beyond making values of its own, functions that it calls included."""

from __future__ import annotations

import ast
import builtins
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trainperf.source.arguments import handed
from trainperf.source.bodies import function_of, method_of, reached, reached_elsewhere
from trainperf.source.iterations import arguments, stored
from trainperf.source.module import Module, inside
from trainperf.source.scopes import FUNCTIONS, Binding, Function
from trainperf.source.statements import COLLECTS, assigned, called, made_here, root, walk

Kind = Literal[
    "sets", "fills", "adds", "reads on", "alone", "steers", "draws", "unknown", "asks", "writes",
    "ends",
]  # fmt: skip
"""What code may do:

- sets: an attribute, an element or a global name
- fills: an object is changed in place
- adds: to a name, which may be that of an array
- reads on: from a file, a queue or an iterator, which goes on from where it was
- alone: something is done for the whole process, or on one canvas
- steers: the model, the optimizer or the run is changed
- draws: random numbers, or the clock is read
- unknown: a call of unknown doing
- asks: a method of which it is not known that it changes nothing
- writes: something is put on record
- ends: an exception is raised
"""

STREAMS = frozenset({
    "__next__", "execute", "fetchall", "fetchmany", "fetchone", "get_next", "get_nowait", "grab",
    "read", "readinto", "readline", "readlines", "recv", "reset", "retrieve", "seek", "send",
    "step", "write",
})  # fmt: skip
"""Methods of files, cursors, queues, cameras and environments: each call goes on from the last."""

IN_PLACE = ("fill", "reverse", "shuffle", "sort")
"""Methods, besides those that collect, that change what they are called on."""

ALONE = frozenset({"chdir", "fit", "predict", "predict_on_batch", "seed", "set_seed"})
"""Functions that set something for the whole process, or that models run one at a time."""

ALONE_OF = ("matplotlib.", "pylab.", "tkinter.", "seaborn.")
"""Modules that draw on one canvas."""

BORROWED = "tokenizer"
"""A part of the names of fast tokenizers, which refuse a second thread."""

STEERS = frozenset({
    "all_gather", "all_reduce", "apply", "apply_gradients", "assign", "assign_add", "assign_sub",
    "backward", "barrier", "broadcast", "compile", "eval", "evaluate_and_stop", "exit", "fit",
    "load_state_dict", "load_weights", "manual_seed", "minimize", "next", "reduce", "reset_state",
    "reset_states", "seed", "set_value", "set_weights", "setattr", "step", "super", "terminate",
    "train", "train_on_batch", "unscale_", "update_parameters", "zero_grad",
})  # fmt: skip
"""Functions and methods that change the model, the optimizer, other ranks or the run, or may.

Those whose name ends in `_` change a tensor, by PyTorch's own convention.
"""

RANDOM = re.compile(
    r"^r?sample$|^rand|random|_rand|shuffle|permut|choice|choose|bernoulli|multinomial|uniform"
    r"|^normal_?$|integers|dropout|^aug|augment|jitter|noise|perturb|mix_?up|cut_?out|transform"
    r"|uuid|urandom|^time$|^now$|^today$|perf_counter|timestamp",
    re.IGNORECASE,
)
"""Names of what draws random numbers, reads the clock, or may do so."""

KNOWN = (
    "numpy", "PIL", "cv2", "torch", "os", "json", "io", "math", "pathlib", "pandas", "scipy",
    "skimage", "soundfile", "librosa", "torchaudio", "imageio", "h5py", "csv", "pickle", "re",
    "string", "tifffile", "pydicom", "nibabel", "struct", "gzip", "base64", "itertools",
    "functools", "operator", "collections", "unicodedata", "torchvision.io",
    "torchvision.transforms.functional", "torchvision.transforms.v2.functional",
    "keras", "tensorflow",
)  # fmt: skip
"""Modules whose functions give the same for the same arguments, those named as random aside."""

LOADS = re.compile(r"^(load|read|open|im_?read|decode|parse|tokeni[sz]e|pil)(_|$)|_loader$")
"""Names of functions of other files of the user's that read what is there."""

SAMPLERS = tuple(
    f"torch.utils.data.{name}"
    for name in ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")
)
"""Objects that draw when they are gone through, not when they are made."""

HELD = re.compile(r"token|vocab|loader|decode|encode|resize|normali[sz]e|to_?tensor", re.IGNORECASE)
"""Names of what an object holds that may be called: it makes the same of the same."""

PURE = frozenset({
    "abs", "all", "any", "as_posix", "astype", "clip", "copy", "count", "decode", "encode",
    "endswith", "exists", "find", "flatten", "format", "get", "glob", "groupby", "head", "index",
    "is_file", "items", "iterdir", "iterrows", "itertuples", "join", "keys", "lower", "max",
    "mean", "min", "numpy", "ravel", "read_bytes", "read_text", "replace", "reshape", "resolve",
    "rglob", "round", "split", "splitlines", "startswith", "std", "strip", "sum", "to_numpy",
    "tobytes", "toarray", "tolist", "transpose", "upper", "values", "with_suffix",
})  # fmt: skip
"""Methods that give the same each time and leave what they are called on as it is."""

_WRITES = re.compile(
    r"^(save|savez|dump|to_csv|to_parquet|to_pickle|tofile|im_?write|im_?save)"
    r"|^(print|write\w*|makedirs|mkdir|unlink|remove|rename|log|debug|info|warn\w*|error"
    r"|exception|critical)$"
    r"|^plot|^show$|summary$"
)
"""Names of functions that write a file, or a line."""

_OF_NUMBERS = ("math.", "numpy.", "torch.", "tensorflow.", "keras.", "scipy.", "cmath.")


@dataclass(frozen=True)
class Effect:
    """One thing that a piece of code does, at `node`: an expression that is set, or a call.

    `source` says it as the source does. `root` is the name of the object that is changed or
    asked, in the code that was asked about, "" where it has none there; `own` says that this code
    has made it. `module` is the file in which `node` stands, `within` the function that the code
    calls for it, "" where it does it itself.
    """

    kind: Kind
    module: Module
    node: ast.expr | ast.stmt
    source: str
    root: str = ""
    own: bool = False
    within: str = ""

    @property
    def text(self) -> str:
        """What is done, and in which function: "self.size, in grow()"."""
        return f"{self.source}, in {self.within}()" if self.within else self.source

    @property
    def given(self) -> list[ast.expr]:
        """What is handed to the call, nothing for what is no call."""
        call = self.node
        if not isinstance(call, ast.Call):
            return []
        return [*call.args, *(keyword.value for keyword in call.keywords)]


def effects(module: Module, code: Iterable[ast.AST], given: Iterable[str] = ()) -> Iterator[Effect]:
    """Yield what some code of a file does, in order, as far as the user's files show.

    Functions of these are followed, with what they are given, methods and properties of `self`
    too. `given` are names of objects that are the code's own, besides those that it makes.
    """
    code = list(code)
    return _Reader().of(module, code, (made_here(code) | set(given)) - {"self", "cls"})


def first(found: Iterable[Effect], *kinds: Kind) -> Effect | None:
    """Return the first effect of such kinds on what the code has not made itself."""
    return next((each for each in found if each.kind in kinds and not each.own), None)


def changes_shared(module: Module, code: Iterable[ast.AST], given: Iterable[str] = ()) -> str:
    """Return the source of something that code changes, or reads on from, beyond an iteration.

    A list that it fills, an attribute, an open file. '' where there is none. What libraries do is
    taken to be fit for threads, as NumPy, Pillow and OpenCV are, random generators of NumPy and
    Python included. `given` is its own as well.
    """
    found = first(effects(module, code, given), "sets", "fills", "reads on", "alone")
    return "" if found is None else found.text


def filled_names(module: Module, code: Iterable[ast.AST], own: bool = True) -> set[str]:
    """Return the names of what code changes in place, or sets for others; `own` things as well."""
    found = (each for each in effects(module, code) if own or not each.own)
    return {each.root for each in found if each.kind in ("sets", "fills")} - {"", "self"}


def changed_names(module: Module, code: Iterable[ast.AST]) -> set[str]:
    """Return the names that code binds, and those of what it changes in place."""
    code = list(code)
    return (stored(code) | filled_names(module, code)) - {"self"}


def repeats(module: Module, code: ast.AST) -> bool:
    """Whether all that code calls is known to give the same for the same arguments."""
    return first(effects(module, [code]), "draws", "unknown") is None


def written(node: ast.AST) -> list[ast.expr]:
    """Return what a node sets a part of, fills or changes the order of."""
    if isinstance(node, ast.Call):
        return filled(node)
    return [part for part in assigned(node) if isinstance(part, ast.Subscript | ast.Attribute)]


def filled(call: ast.Call) -> list[ast.expr]:
    """Return what a call changes in place: what it is a method of, arrays that it writes into."""
    found = [each.value for each in call.keywords if each.arg == "out"]
    name = called(call)
    if name in ("copyto", "shuffle") and call.args:
        return [*found, call.args[0]]
    if isinstance(call.func, ast.Attribute) and (name in COLLECTS or name in IN_PLACE):
        found.append(call.func.value)
    return found


class _Reader:
    """Reads code, each function that it calls once."""

    def __init__(self) -> None:
        self._of_function: dict[int, list[Effect]] = {}
        self._read: set[int] = set()
        """Nodes that are read where they stand: functions defined there are not followed again."""

    def of(self, module: Module, code: Sequence[ast.AST], own: set[str]) -> Iterator[Effect]:
        nodes = list(walk(code))
        self._read |= {id(node) for node in nodes}
        functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        for node in nodes:
            if isinstance(node, ast.Call):
                yield from self._call(module, node, own)
            elif isinstance(node, ast.Name | ast.Attribute):
                if id(node) not in functions and isinstance(node.ctx, ast.Load):
                    yield from self._mentioned(module, node)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                text = ast.unparse(node)
                yield from (Effect("sets", module, node, text, name) for name in node.names)
            elif isinstance(node, ast.Raise):
                yield Effect("ends", module, node, ast.unparse(node))
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                yield Effect("adds", module, node.target, name, name, name in own)
            for target in assigned(node):
                if not isinstance(target, ast.Name):
                    text, name = ast.unparse(target), root(target)
                    yield Effect("sets", module, target, text, name, name in own)

    def _call(self, module: Module, call: ast.Call, own: set[str]) -> Iterator[Effect]:
        name, text = called(call), f"{ast.unparse(call.func)}()"
        held = call.func.value if isinstance(call.func, ast.Attribute) else None
        full = module.name(call.func)
        taken = name == "get" and not call.args and not call.keywords  # of a queue
        read_on = [held] if held is not None and (name in STREAMS or taken) else []
        read_on += call.args[:1] if name == "next" else []
        changed: list[tuple[Kind, ast.expr]] = [("fills", value) for value in filled(call)]
        changed += [("reads on", value) for value in read_on]
        for kind, value in changed:
            made = _is_made(module, value, own)
            yield Effect(kind, module, call, text, root(value), made)
        if (
            (held is not None and name in ALONE)
            or (full or "").startswith(ALONE_OF)
            or BORROWED in text.lower()
        ):
            yield Effect("alone", module, call, text)
        if name in STEERS or (name.endswith("_") and not name.endswith("__")):
            yield Effect("steers", module, call, text, root(call.func))
        code = function_of(module, call.func)
        there = (module, code) if code is not None else module.defined(call.func)
        if there is not None:
            yield from self._followed(module, call, own, *there)
            return
        logarithm = name == "log" and (full or "").startswith(_OF_NUMBERS)
        if (_WRITES.search(name) and not logarithm) or _opened_to_write(call):
            yield Effect("writes", module, call, text)
        doubt = _doubt(call, full)
        if doubt is not None:
            yield Effect(doubt, module, call, text)
        elif held is not None and full is None and name not in PURE and not changed:
            yield Effect("asks", module, call, text, root(held), root(held) in {"", *own})

    def _mentioned(self, module: Module, node: ast.Name | ast.Attribute) -> Iterator[Effect]:
        """What a property does, or a function that is handed on to what calls it."""
        function = function_of(module, node)
        if function is not None and id(function) not in self._read:
            given = arguments(function) - {"self", "cls"}
            yield from (each for each in self._function(module, function) if each.root not in given)

    def _followed(
        self,
        module: Module,
        call: ast.Call,
        own: set[str],
        there: Module,
        function: Function | ast.Lambda | ast.ClassDef | None,
    ) -> Iterator[Effect]:
        """What a function does for one that calls it: to what it is given, and to others."""
        makes = isinstance(function, ast.ClassDef)
        if isinstance(function, ast.ClassDef):
            function = method_of(function, "__init__")
        if function is None:
            return
        given = dict(handed(function, call)) if isinstance(function, FUNCTIONS) else {}
        parameters = arguments(function) - {"self", "cls"}
        for each in self._function(there, function):
            if each.root in parameters:
                value = given.get(each.root)
                if value is not None and isinstance(function, FUNCTIONS):
                    kind: Kind = "fills" if each.kind == "adds" else each.kind
                    text = f"{ast.unparse(value)}, by {function.name}()"
                    made = _is_made(module, value, own)
                    yield replace(
                        each, kind=kind, source=text, root=root(value), own=made, within=""
                    )
            elif id(function) not in self._read and not (makes and each.root == "self"):
                yield replace(each, within=called(call))

    def _function(self, module: Module, function: Function | ast.Lambda) -> list[Effect]:
        if id(function) not in self._of_function:
            self._of_function[id(function)] = []  # it may call itself
            body = function.body if isinstance(function.body, list) else [function.body]
            own = made_here(body) - arguments(function) - {"self", "cls"}
            local = stored(body) - arguments(function)
            self._of_function[id(function)] = [
                replace(each, root="") if each.root in local else each
                for each in self.of(module, body, own)
                if each.kind != "adds" or each.root not in local
            ]
        return self._of_function[id(function)]


def _doubt(call: ast.Call, name: str | None) -> Kind | None:
    """Whether a call of others' code may give another result each time, None if not."""
    last = (name or ast.unparse(call.func)).rpartition(".")[2]
    if name in SAMPLERS:
        return None
    if RANDOM.search(last) and not (name or "").startswith("torchvision.transforms."):
        return "draws"
    if name == "next":  # of a stream, or the first of some that are made here
        made = bool(call.args) and isinstance(call.args[0], ast.GeneratorExp | ast.ListComp)
        return None if made else "unknown"
    if name is not None:
        plain = hasattr(builtins, name) and name != "input"
        known = any(name.startswith(f"{each}.") for each in KNOWN) and ".random" not in name
        return None if plain or known or LOADS.search(last) else "unknown"
    if not isinstance(call.func, ast.Attribute):
        return "unknown"
    if root(call.func) == "self" and isinstance(call.func.value, ast.Name):
        return None if HELD.search(call.func.attr) else "unknown"  # what it holds, called
    return "draws" if "rng" in ast.unparse(call.func) else None


def _opened_to_write(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(given.value for given in call.keywords if given.arg == "mode")]
    texts = [str(mode.value) for mode in modes if isinstance(mode, ast.Constant)]
    return called(call) == "open" and any(set("wax+") & set(text) for text in texts)


def _is_made(module: Module, node: ast.expr, own: set[str]) -> bool:
    """Whether an object is made by the code itself, or is no object but an imported module."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    found = module.bindings(node) if isinstance(node, ast.Name) else None
    imported = bool(found) and all(each.kind == "import" for each in found or ())
    return not isinstance(node, ast.Name) or node.id in own or imported


# --------------------------------------------------------- what stays as it is between turns

DEEP = 3
"""How many calls an argument is followed back through, to where it was made."""


def changing(modules: Sequence[Module], owner: ast.ClassDef, code: Iterable[ast.AST]) -> str:
    """Return what some code of a dataset reads and that changes after it was built, else ''.

    The code stands in the first of the modules; the others may change what it reads.
    """
    nodes = list(reached(modules[0], code))
    read = [each.attr for each in nodes if isinstance(each, ast.Attribute) and root(each)]
    if changed := changing_attribute(modules, owner, read):
        return changed
    for module, used in ((modules[0], nodes), *reached_elsewhere(modules[0], nodes)):
        names = [node for node in used if isinstance(node, ast.Name)]
        of_file = [name for name in names if module.bindings(name) is module.top.find(name.id)]
        if changed := changing_name(module, of_file):
            return changed
    return ""


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
        for target in (part for node in module.nodes for part in written(node)):
            while isinstance(target, ast.Subscript):
                target = target.value
            if not isinstance(target, ast.Attribute) or target.attr not in wanted:
                continue
            function = module.function(target)
            in_init = isinstance(function, FUNCTIONS) and function.name == "__init__"
            if not in_init and function not in building:
                return ast.unparse(target)
    return ""


def _building(owner: ast.ClassDef) -> set[Function]:
    """The methods of a class that only its constructor runs."""
    methods = {each.name: each for each in owner.body if isinstance(each, FUNCTIONS)}
    found = {"__init__"} & set(methods)
    for _ in methods:
        for name in methods.keys() - {"on_epoch_begin", "on_epoch_end"}:  # Keras calls these
            callers = {
                caller
                for caller, method in methods.items()
                for node in inside(method, functions=True)
                if isinstance(node, ast.Attribute) and node.attr == name
            }
            if callers and callers <= found:
                found.add(name)
    return {methods[name] for name in found}


def changing_name(
    module: Module, code: Iterable[ast.AST], line: float = math.inf, deep: int = DEEP
) -> str:
    """Return a name from outside some code that may stand for something else later, else ''.

    It is bound in a loop or by a function, or again behind `line`; another function, or what
    stands behind `line`, writes into it; or that holds for what is handed in as a parameter.
    """
    code = list(code)
    within = {id(node) for node in walk(code)}
    for name in (node for node in walk(code) if isinstance(node, ast.Name)):
        found = module.bindings(name) or []
        if any(id(binding.node) in within for binding in found):
            continue
        varies = any(binding.kind not in ("import", "definition") for binding in found)
        if varies and _may_change(module, name, found, within, line, deep):
            return name.id
    return ""


def _may_change(
    module: Module,
    name: ast.Name,
    found: list[Binding],
    within: set[int],
    line: float,
    deep: int,
) -> bool:
    home, around = home_of(module, found), set(module.around(name))
    given = found[0].kind == "parameter"
    for binding in found:
        again = len(found) > 1 and getattr(binding.node, "lineno", 0) > line
        elsewhere = not given and module.function(binding.node) is not home
        if binding.kind == "loop" or again or elsewhere or {*module.loops(binding.node)} - around:
            return True
    for node in module.nodes:
        added = [node.target] if isinstance(node, ast.AugAssign) else []
        for target in (*written(node), *added):
            names = (part for part in ast.walk(target) if isinstance(part, ast.Name))
            named = next((part for part in names if part.id == name.id), None)
            same = named is not None and root(target) == name.id and id(named) not in within
            if named is None or not same or module.bindings(named) != found:
                continue
            if module.function(node) is not home or target.lineno > line:
                return True
    return given and any(
        changing_name(module, [value], call.lineno, deep - 1)
        for call, value in handed_in(module, home, name.id)
        if deep
    )


def home_of(module: Module, found: list[Binding]) -> ast.AST | None:
    """Return the function that binds a name; None where the file does."""
    node = found[0].node
    if found[0].kind == "parameter" and isinstance(node, FUNCTIONS):
        return node
    return module.function(node)


def handed_in(
    module: Module, function: ast.AST | None, name: str
) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield the calls of a function in its file, each with what it gives as the parameter."""
    if not isinstance(function, FUNCTIONS):
        return
    owner = module.parent(function) if function.name == "__init__" else None
    for call in (node for node in module.nodes if isinstance(node, ast.Call)):
        made = owner is not None and module.definition(call.func) is owner
        if made or function_of(module, call.func) is function:
            yield from ((call, given) for each, given in handed(function, call) if each == name)
