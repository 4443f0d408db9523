"""float64 where float32 would do, in PyTorch."""

from __future__ import annotations

import ast
from dataclasses import replace

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import MIB, ms, percent, worth
from trainperf.fixes.precision.float64_input import BYTES_PER_SECOND, LARGEST_RATIO, PASSES
from trainperf.fixes.torch_step._source import innermost_loop
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence, Finding, Site, TorchModel
from trainperf.rewrite import Script
from trainperf.source.arguments import handed
from trainperf.source.bodies import function_of
from trainperf.source.module import Module, inside
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import called, root

PLACES = 3
"""Where the model is built, the loop, and the model's call: all are needed for an edit."""


class TorchFloat32(Fix):
    """Use float32 in place of float64 in batches and weights.

    ## Why it is slow
    NumPy computes in float64 unless told otherwise, and `torch.from_numpy` keeps that.
    Batches then have twice the bytes to be collated, copied and cast. A model made
    `.double()` runs at half the speed on a CPU, and far below on most GPUs.

    ## What changes
    Half the bytes. Where the loop casts the batch to float32 in any case, only rounding
    on the way can differ; a float64 model gets results of seven digits. The edit is one of
    the model's and the loop's files; batches alone take a look at how they are made.

    ## When not to
    - Data that needs more than seven digits (timestamps, identifiers) before it is scaled.
    - Scientific models that were found to need float64.
    """

    category = "model"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find models that compute in float64, and batches of it that are large."""
        doubled = [one for one in evidence.torch.models if one.trained and "float64" in one.dtypes]
        if doubled:
            return self._model(evidence, max(doubled, key=lambda one: one.parameters or 0))
        size = evidence.loop.batch_bytes
        if evidence.torch.flag("float64_batch") is not True or size is None:
            return None
        real = evidence.times.real
        needless = min(size / 2 * PASSES / BYTES_PER_SECOND, real * (1 - 1 / LARGEST_RATIO))
        bound = real / (real - needless)
        if not worth(evidence, bound):
            return None
        loaders = evidence.torch.loaders
        where = next((each.item for each in loaders if each.role == "training"), None)
        where = where or evidence.loop.where
        return self.finding(
            title="The batches are float64",
            text=f"Each batch has {size / MIB:.0f} MiB. Half of that, collated, copied and cast, "
            f"takes up to about {ms(needless)} of each step ({percent(needless / real)}).",
            bound=bound,
            bound_basis="an estimate from the bytes of a batch",
            where=(where,) if where else (),
            advice="Make the items float32 in the dataset or its collate function.",
            snippet="item = torch.from_numpy(array).float()",
            rewritable=False,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have the files of the model and of the loop speak of float32 in place of float64."""
        built, loop, call = finding.where
        to_float32(script, built, loop, call, finding.data["batch"])

    def _model(self, evidence: Evidence, model: TorchModel) -> Finding | None:
        parts = [
            part.name
            for part in evidence.torch.split
            if part.name in ("forward", "backward", "optimizer")
        ]
        seconds = part_seconds(evidence, *parts)
        bound = bound_if_saved(evidence, seconds * (1 - 1 / LARGEST_RATIO))
        if not worth(evidence, bound):
            return None
        on_gpu = evidence.device.kind == "GPU"
        places = (model.where, evidence.loop.where, model.call)
        where = tuple(site for site in places if site is not None)
        partly = "Some of its" if len(model.dtypes) > 1 else "Its"
        return self.finding(
            title=f"{model.cls} computes in float64",
            text=f"{partly} weights are float64, so they and their products have twice the bytes. "
            f"Forward, backward and update take {ms(seconds)} of the {ms(evidence.times.real)} "
            "step"
            + (", and most GPUs do float64 at a small part of their speed." if on_gpu else "."),
            bound=None if on_gpu else bound,
            bound_basis="not measured" if on_gpu else "twice the lanes, half the bytes",
            where=where,
            rewritable=len(where) == PLACES and all(site.exact for site in where),
            data={"batch": _converted(evidence, model)},
            advice="Leave `.double()` and `set_default_dtype(torch.float64)` out, and make the "
            "batches float32.",
            snippet=f"{model.name or 'model'}.float()",
        )


def _converted(evidence: Evidence, model: TorchModel) -> str:
    """Return the part of a batch that is float64: "all", "first" (the model's input), or ""."""
    types = evidence.loop.batch_dtypes
    if "float64" not in types:
        return ""
    if types == ("float64",):
        return "all"
    return "" if "Embedding" in model.modules else "first"


TYPES = {
    "torch.float64": "float32",
    "torch.double": "float32",
    "torch.DoubleTensor": "FloatTensor",
    "numpy.float64": "float32",
    "numpy.double": "float32",
}
"""Types by the modules' own names, and the attribute of the same module that takes their place."""


def to_float32(script: Script, built: Site, loop: Site, call: Site, batch: str) -> None:
    """Edit the files in which the model is built and the loop stands.

    `batch` says what of a batch comes as float64 ("all", "first": what the model is given, or
    ""): it is converted where nothing in the files makes it so. Raises `CannotRewrite` where
    nothing there makes the model float64.
    """
    count = arrays = 0
    for near in {site.file: site for site in (built, loop)}.values():
        module = script.source(near.file).module
        for node in module.nodes:
            name = (module.name(node) or "") if isinstance(node, ast.Attribute) else ""
            if isinstance(node, ast.Attribute) and name in TYPES:
                text = f"{ast.unparse(node.value)}.{TYPES[name]}"
                script.replace_call(script.site_of(near, node), text)
                arrays += name.startswith("n") or not _sets_default(script, near, node)
                count += 1
            elif isinstance(node, ast.Call) and _doubles(node):
                script.rename_call(script.site_of(near, node), "float")
                arrays += not _of_model(script, near, node, built)
                count += 1
            elif isinstance(node, ast.Call) and _named_so(node):
                script.replace_call(script.site_of(near, node.args[0]), '"float32"')
                arrays, count = arrays + 1, count + 1
    if not count:
        raise CannotRewrite("nothing in the files of the model and the loop makes it float64")
    if batch and not arrays:
        _convert(script, loop, call, batch)


def _doubles(node: ast.Call) -> bool:
    return called(node) == "double" and isinstance(node.func, ast.Attribute) and not node.args


def _named_so(node: ast.Call) -> bool:
    """Whether it is `array.astype("float64")`."""
    if called(node) != "astype" or len(node.args) != 1:
        return False
    given = node.args[0]
    return isinstance(given, ast.Constant) and given.value in ("float64", "double")


def _sets_default(script: Script, near: Site, node: ast.AST) -> bool:
    """Whether a type stands in `torch.set_default_dtype(…)`."""
    for each in ast.walk(script.module(near.file)):
        if isinstance(each, ast.Call) and node in each.args:
            return called(each) in ("set_default_dtype", "set_default_tensor_type")
    return False


def _of_model(script: Script, near: Site, node: ast.Call, built: Site) -> bool:
    """Whether `x.double()` stands in the statement that builds the model, or by itself."""
    statement = script.around(script.site_of(near, node))[-1]
    if near.file == built.file and statement in script.around(built):
        return True
    return isinstance(statement, ast.Expr) and statement.value is node


def _convert(script: Script, loop: Site, call: Site, batch: str) -> None:
    """Make float32 of a batch that the loader gives as float64, and of all else the model gets."""
    module = script.source(loop.file).module
    calls = {id(each): each for each in _calls_of(module, script.call(call).func)}
    done: set[int] = set()
    if batch == "all":
        node = innermost_loop(script, loop)
        alike = _given_place(node, calls)
        for each in module.nodes:  # an evaluation is given such batches as well
            if each is node or (alike and _given_place(each, calls) == alike):
                _convert_in(script, loop, each)
                done |= {id(inner) for inner in ast.walk(each)}
    for key, each in calls.items():
        if key not in done:
            script.wrap_argument(script.site_of(loop, each), 0, "{}.float()")


def _calls_of(module: Module, model: ast.expr) -> list[ast.Call]:
    """The calls of a model in its file, by the names of functions that are handed it as well."""
    calls = [each for each in module.nodes if isinstance(each, ast.Call)]
    same = [
        {(id(function), name), _meaning(module, given)}
        for function, each in ((function_of(module, each.func), each) for each in calls)
        if isinstance(function, FUNCTIONS)
        for name, given in handed(function, each)
    ]
    known, count = {_meaning(module, model)}, 0
    while len(known) > count:
        count = len(known)
        known = known.union(*(each for each in same if each & known))
    return [each for each in calls if each.args and _meaning(module, each.func) in known]


def _meaning(module: Module, node: ast.expr) -> tuple[int, str]:
    """The source of an expression, with the function whose parameter it begins with, if any.

    `self` is that of all methods of a class.
    """
    name = next((each for each in ast.walk(node) if isinstance(each, ast.Name)), node)
    found = module.bindings(name) or []
    own = [module.function(each.node) for each in found if each.kind == "parameter"]
    owner = module.parent(own[0]) if own and own[0] is not None else None
    method = isinstance(owner, ast.ClassDef) and root(node) == "self"
    return id(owner if method else own[0] if own else None), ast.unparse(node)


def _given_place(loop: ast.AST, calls: dict[int, ast.Call]) -> tuple[int, int] | None:
    """How many names a loop gives its batch, and which of them its own body gives the model."""
    names = [ast.unparse(each) for each in _batch(loop)] if isinstance(loop, ast.For) else []
    for call in (calls[id(each)] for each in inside(loop) if id(each) in calls):
        if root(call.args[0]) in names:
            return len(names), names.index(root(call.args[0]))
    return None


def _batch(loop: ast.For) -> list[ast.expr]:
    """The parts of the target of a loop, without the count of `enumerate`."""
    target = loop.target
    if called_enumerate(loop) and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    return list(target.elts) if isinstance(target, ast.Tuple) else [target]


def _convert_in(script: Script, near: Site, node: ast.AST) -> None:
    names = _batch(node) if isinstance(node, ast.For) else []
    texts = [each.id for each in names if isinstance(each, ast.Name)]
    if not isinstance(node, ast.For) or not texts or len(texts) < len(names):
        raise CannotRewrite("the loop gives its batch no plain names")
    values = ", ".join(f"{each}.float()" for each in texts)
    place = replace(near, line=node.body[0].lineno, col=0, end_line=0, end_col=0)
    script.insert_before(place, f"{', '.join(texts)} = {values}")


def called_enumerate(node: ast.For) -> bool:
    """Whether a loop goes over `enumerate(…)`."""
    return isinstance(node.iter, ast.Call) and called(node.iter) == "enumerate"
