"""Uses of a tensor that would take a NumPy array as well, and what to change for it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from trainperf.errors import CannotRewrite
from trainperf.source.module import Module

NUMBERS = frozenset({"bool", "float", "int", "len"})
"""Built-in functions that make the same of both."""

COPIES = frozenset(
    [
        "abs",
        "all",
        "allclose",
        "amax",
        "amin",
        "any",
        "append",
        "argmax",
        "argmin",
        "argsort",
        "array",
        "array_equal",
        "clip",
        "concatenate",
        "copy",
        "exp",
        "hstack",
        "isfinite",
        "isnan",
        "log",
        "max",
        "maximum",
        "mean",
        "min",
        "minimum",
        "prod",
        "repeat",
        "sort",
        "stack",
        "std",
        "sum",
        "tile",
        "var",
        "vstack",
        "where",
    ]
)
"""Functions of NumPy whose result shares nothing with what they are given."""

VIEWS = frozenset({"asarray", "expand_dims", "ravel", "reshape", "squeeze", "transpose"})
"""Functions of NumPy whose result may be the very numbers that they are given."""

TENSORS = ("tensorflow.math", "tensorflow.nn", "tensorflow.random", "tensorflow.linalg")
"""Modules all of whose functions make tensors of what they are given."""

NOT_TENSORS = frozenset(
    [
        "case",
        "cond",
        "custom_gradient",
        "foldl",
        "foldr",
        "function",
        "get_static_value",
        "is_symbolic_tensor",
        "is_tensor",
        "map_fn",
        "numpy_function",
        "py_function",
        "scan",
        "switch_case",
        "vectorized_map",
        "while_loop",
    ]
)
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
