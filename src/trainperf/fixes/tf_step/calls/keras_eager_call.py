"""A Keras model called eagerly in a Python loop, for one small batch at a time."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import partial

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.words import make_those_that_can_be
from trainperf.fixes.tf_step.calls.keras_predict_in_loop import ModelCalls
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.model.outside import CALLED_EAGERLY
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, starred
from trainperf.source.module import Module

SNIPPET = "q = model.predict_on_batch(x)  # an array, instead of model(x, training=False)"


class EagerCall(Fix):
    """Use `predict_on_batch` instead of calling a model eagerly in a Python loop.

    ## Why it is slow
    `model(x)` outside of a compiled function runs each layer, and each operation of it, from
    Python: 1.7 ms for a model of three dense layers, whose arithmetic is next to nothing.
    `predict_on_batch` calls one compiled function instead: 0.4 ms (Keras 3.15).

    ## What changes
    The result is a NumPy array and no tensor: `.numpy()` goes, and calls whose results are used
    otherwise than an array can be are left alone. The mathematics is the same, as of a call
    with `training=False`; rounding may differ. Inputs that do not depend on one another are
    better given to one call, several at a time.

    ## When not to
    - Within a `GradientTape`, whose gradients need the call; and with `training=True`.
    - Where the layers of the model are replaced, or do something in Python in each call: the
      compiled function keeps what they were when it was traced.
    - For inputs of ever new shapes, and models made anew: the function is traced for each.
    - On a GPU, where the result goes into further tensor operations: it need not come to the host.
    """

    category = "host"
    concerns = "outside"
    equivalence = Equivalence.NUMERICS
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find many short calls of models where each turn spends its time in them."""
        calls = ModelCalls.of(evidence, CALLED_EAGERLY)
        if calls is None:
            return None
        return self.finding(
            title=f"A model called eagerly in a Python loop takes {calls.share} of the time",
            text=f"Models are called eagerly, outside of gradient tapes, {calls.said()}. "
            f"Each runs its layers one by one from Python.{calls.timed()}",
            bound=calls.bound,
            bound_basis=calls.basis,
            where=calls.where,
            advice="Call `predict_on_batch`, or a `tf.function` of the model. Where inputs do not "
            "depend on one another, give it several at a time.",
            snippet=SNIPPET,
            rewritable=None if any(rows is not None for rows in calls.rows) else False,
            data=calls.data(),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call `predict_on_batch`, where its array does as well; as many as can be."""
        calls = zip(finding.where, finding.data["rows"], strict=True)
        make_those_that_can_be(
            script, (partial(_on_batch, site=site, rows=rows) for site, rows in calls)
        )


def _on_batch(script: Script, site: Site, rows: int | None) -> None:
    """Have the call at `site` be one of `predict_on_batch`, and its uses take an array."""
    call = script.call(site)
    if rows is None:
        raise CannotRewrite(
            "it was not seen that the model is Keras's own throughout, stays the same, and is "
            "called here outside of tapes and compiled functions alone"
        )
    if not isinstance(call.func, ast.Name | ast.Attribute | ast.Subscript):
        raise CannotRewrite("it is not called by a name of the model")
    if isinstance(call.func, ast.Attribute) and call.func.attr == "__call__":
        raise CannotRewrite("it is not called by a name of the model")
    training = argument(call, "training")
    if starred(call) or len(call.args) != 1 or len(call.keywords) > (training is not None):
        raise CannotRewrite("it is told more than its input")
    if training is not None and not _is_off(training):
        raise CannotRewrite("`training` may be true")
    source = script.source(site.file)
    uses = ArrayUses(source.module)
    uses.follow(call)
    script.replace_node(site.file, call.func, f"{source.text_of(call.func)}.predict_on_batch")
    if training is not None:
        script.remove_keyword(site, "training")
    for each in uses.dropped:
        script.drop_call(script.site_of(site, each))
    for each in uses.copied:
        script.rename_call(script.site_of(site, each), "copy")


def _is_off(training: ast.expr) -> bool:
    return isinstance(training, ast.Constant) and training.value in (False, None)


NUMBERS = frozenset({"bool", "float", "int", "len"})
"""Built-in functions that make the same of both."""

COPIES = frozenset({
    "abs", "all", "allclose", "amax", "amin", "any", "append", "argmax", "argmin", "argsort",
    "array", "array_equal", "clip", "concatenate", "copy", "exp", "hstack", "isfinite", "isnan",
    "log", "max", "maximum", "mean", "min", "minimum", "prod", "repeat", "sort", "stack", "std",
    "sum", "tile", "var", "vstack", "where",
})  # fmt: skip
"""Functions of NumPy whose result shares nothing with what they are given."""

VIEWS = frozenset({"asarray", "expand_dims", "ravel", "reshape", "squeeze", "transpose"})
"""Functions of NumPy whose result may be the very numbers that they are given."""

TENSORS = ("tensorflow.math", "tensorflow.nn", "tensorflow.random", "tensorflow.linalg")
"""Modules all of whose functions make tensors of what they are given."""

NOT_TENSORS = frozenset({
    "case", "cond", "custom_gradient", "foldl", "foldr", "function", "get_static_value",
    "is_symbolic_tensor", "is_tensor", "map_fn", "numpy_function", "py_function", "scan",
    "switch_case", "vectorized_map", "while_loop",
})  # fmt: skip
"""Functions of `tf` and `keras.ops` that look at what they are given, or hand it on."""


@dataclass
class ArrayUses:
    """Follows a value that was a tensor and will be an array, to all that reads it.

    Calls of its `numpy()` go (`dropped`), or become `copy()` (`copied`) where others read the
    array too: what `numpy()` gives is the reader's own. Raises `CannotRewrite` at a use that
    would not come to the same.
    """

    module: Module
    dropped: list[ast.Call] = field(default_factory=list)
    copied: list[ast.Call] = field(default_factory=list)

    def follow(self, node: ast.expr, alone: bool = True, certain: bool = True) -> None:
        """Follow the value of `node`.

        `alone` says that nothing else reads the array, `certain` that it is always this one.
        """
        parent = self.module.parent(node)
        if isinstance(parent, ast.Subscript) and parent.value is node and _reads(parent):
            self.follow(parent, alone, certain)
        elif isinstance(parent, ast.Attribute):
            self._attribute(parent, alone, certain)
        elif isinstance(parent, ast.Assign):
            for target in parent.targets:
                self._assigned(target, alone and len(parent.targets) == 1)
        elif (function := self._given_to(node)) is None:
            raise CannotRewrite(_refusal(parent))
        elif not self._takes(function, alone):
            raise CannotRewrite(f"`{function}` may not do the same with an array")

    def _attribute(self, node: ast.Attribute, alone: bool, certain: bool) -> None:
        parent = self.module.parent(node)
        if node.attr == "numpy" and isinstance(parent, ast.Call) and parent.func is node:
            if not certain:
                raise CannotRewrite("the name of its result stands for other values as well")
            (self.dropped if alone or self._only_read(parent) else self.copied).append(parent)
            return
        indexed = isinstance(parent, ast.Subscript) and not isinstance(parent.slice, ast.Slice)
        if node.attr != "ndim" and not (node.attr == "shape" and indexed):
            raise CannotRewrite(f"`.{node.attr}` of its result is used")

    def _assigned(self, target: ast.expr, alone: bool) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                self._assigned(each, alone)
            return
        bindings = self.module.bindings(target) if isinstance(target, ast.Name) else None
        if not isinstance(target, ast.Name) or bindings is None:
            raise CannotRewrite("its result is kept in more than a name")
        if any(isinstance(each.node, ast.AugAssign) for each in bindings):
            raise CannotRewrite("its result is added to in place")
        loads = [
            each
            for each in self.module.nodes
            if isinstance(each, ast.Name)
            and each.id == target.id
            and isinstance(each.ctx, ast.Load)
            and self.module.bindings(each) is bindings
        ]
        for each in loads:
            self.follow(
                each, alone and len(loads) == 1 and self._at_once(target, each), len(bindings) == 1
            )

    def _at_once(self, target: ast.expr, load: ast.expr) -> bool:
        """Whether a name is read no oftener than it is given its value."""
        module = self.module
        return module.scope(load) is module.scope(target) and module.loops(load) == module.loops(
            target
        )

    def _only_read(self, node: ast.expr) -> bool:
        """Whether a value goes into a function that keeps nothing of it, at once."""
        parent = self.module.parent(node)
        while isinstance(parent, ast.Subscript) and parent.value is node and _reads(parent):
            node, parent = parent, self.module.parent(parent)
        function = self._given_to(node)
        return function is not None and self._takes(function, alone=False)

    def _given_to(self, node: ast.expr) -> str | None:
        """The function that `node` is an argument of, or an entry of a list that is one."""
        inner: ast.AST = node
        parent = self.module.parent(node)
        for kind in (ast.List | ast.Tuple, ast.keyword):
            if isinstance(parent, kind):
                inner, parent = parent, self.module.parent(parent)
        if not isinstance(parent, ast.Call) or inner is parent.func:
            return None
        return self.module.name(parent.func) or ast.unparse(parent.func)

    def _takes(self, function: str, alone: bool) -> bool:
        """Whether a function makes the same of a tensor and of its array."""
        owner, _, name = function.rpartition(".")
        if owner == "numpy":
            return name in COPIES or (alone and name in VIEWS)
        if owner in ("tensorflow", "keras.ops") or owner in TENSORS:
            return name not in NOT_TENSORS and name.islower()
        return owner == "numpy.random" or function in NUMBERS


def _reads(node: ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Load)


def _refusal(parent: ast.AST | None) -> str:
    if isinstance(parent, ast.Expr):
        return "its result is not used: it may be there to build the model"
    if isinstance(parent, ast.Return):
        return "its result leaves the function, which others may use as a tensor"
    return "its result is used as a tensor"
