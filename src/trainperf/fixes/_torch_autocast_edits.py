"""A training loop rewritten for autocast, and for the scaled loss that float16 needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.model import Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)

UNSAFE_ON_CUDA = ("BCELoss", "binary_cross_entropy")
"""PyTorch refuses these in a CUDA autocast region; their "with_logits" kin are safe."""


def put_autocast(script: Script, forward: Site, backward: Site, device: str, dtype: str) -> None:
    """Put all from the forward to the last statement before the backward under autocast.

    Where the backward stands in another function than the forward, all from there to the
    end of the function that returns the loss. Raises `CannotRewrite` where the file
    speaks of autocast, or what follows could not be computed in 16 bits.
    """
    tree = script.module(forward.file)
    names = _names(tree)
    if "autocast" in names or "GradScaler" in names:
        raise CannotRewrite("the file speaks of mixed precision itself")
    unsafe = sorted(names & set(UNSAFE_ON_CUDA))
    if unsafe and device == "cuda":
        raise CannotRewrite(f"{unsafe[0]} cannot run in autocast; its form for logits can")
    statement = script.around(forward)[-1]
    if any(isinstance(node, ast.Lambda) for node in ast.walk(statement)):
        raise CannotRewrite("the model is called near a lambda, which may run elsewhere")
    if dtype == "bfloat16":
        _refuse_numpy(script.around(forward), tree)
    torch = script.module_name(forward.file, "torch", forward)
    header = f'with {torch}.autocast(device_type="{device}", dtype={torch}.{dtype}):'
    if _scope(script, forward) is _scope(script, backward):
        _wrap_to_backward(script, forward, backward, header)
    else:
        script.wrap_statements(forward, _returned(script, forward), header)


def _wrap_to_backward(script: Script, forward: Site, backward: Site, header: str) -> None:
    places = script.around(forward), script.around(backward)
    if places[0][-1] is places[1][-1]:
        raise CannotRewrite(
            "forward and backward stand in one statement: give the loss a name, so that only "
            "the forward goes under autocast"
        )
    script.wrap_statements(forward, forward, header, until=backward)


def _returned(script: Script, forward: Site) -> Site:
    """Return the last statement of the function around the forward, which returns the loss."""
    function = _scope(script, forward)
    if not isinstance(function, _FUNCTIONS):
        raise CannotRewrite("forward and backward are not in one function")
    around = script.around(forward)
    inner = around[around.index(function) + 1]
    last = function.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        raise CannotRewrite(f"{function.name} calls the model and does not end in a return")
    for node in function.body[function.body.index(inner) :]:
        for each in ast.walk(node):
            if isinstance(each, ast.Yield | ast.YieldFrom):
                raise CannotRewrite(f"{function.name} calls the model and is a generator")
            if isinstance(each, ast.Attribute) and each.attr in ("backward", "step"):
                raise CannotRewrite(f"{function.name} does more than to compute the loss")
    return Site(forward.file, last.lineno, forward.function, last.col_offset)


def _refuse_numpy(around: Sequence[ast.stmt], tree: ast.Module) -> None:
    """Refuse outputs that are handed to NumPy, which has no bfloat16."""
    names = {
        each.id
        for each in ast.walk(around[-1])
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    scope = next((node for node in reversed(around) if isinstance(node, _FUNCTIONS)), tree)
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute) and node.attr == "numpy":
            methods = [each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)]
            roots = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            if roots & names and not {"float", "to", "type", "double"} & set(methods):
                raise CannotRewrite(
                    f"line {node.lineno} hands what the model returned to NumPy, which has no "
                    "bfloat16: put .float() before it"
                )


# --------------------------------------------------------------------- scaled losses


def put_scaler(script: Script, backward: Site, step: Site, clip: Site | None, scaler: str) -> None:
    """Scale the loss, and let the scaler make the update: what float16 needs.

    `scaler` builds one, such as `amp.GradScaler("cuda")`, as an attribute of `torch`.
    Raises `CannotRewrite` where gradients might be read while they are scaled.
    """
    file = backward.file
    tree = script.module(file)
    if step.file != file or (clip is not None and clip.file != file):
        raise CannotRewrite("backward and update stand in different files")
    optimizer = _updated(script, step)
    _refuse_other_gradients(tree, optimizer, clip)
    if not re.search(r"\.backward\(\s*\)$", script.expression(backward)):
        raise CannotRewrite("the backward is no plain loss.backward()")
    name = next((each for each in ("scaler", "grad_scaler") if each not in _names(tree)), None)
    if name is None:
        raise CannotRewrite("the file uses the names scaler and grad_scaler itself")
    if clip is not None:
        _check_clip(script, clip, step)
        script.insert_before(clip, f"{name}.unscale_({optimizer})")
    script.wrap_call(script.receiver(backward), f"{name}.scale({{}})")
    script.replace_call(step, f"{name}.step({optimizer})")
    script.insert_after(step, f"{name}.update()")
    _build(script, backward, step, name, scaler)


def _updated(script: Script, step: Site) -> str:
    """Return the optimizer that a statement `optimizer.step()` steps."""
    text = script.expression(step)
    statement = script.around(step)[-1]
    found = re.fullmatch(r"([A-Za-z_][\w.]*)\.step\(\s*\)", text)
    alone = isinstance(statement, ast.Expr) and ast.unparse(statement) == _normal(text)
    if found is None or not alone:
        raise CannotRewrite("the update is no plain statement optimizer.step()")
    return found[1]


def _normal(text: str) -> str:
    return ast.unparse(ast.parse(text, mode="eval"))


def _refuse_other_gradients(tree: ast.Module, optimizer: str, clip: Site | None) -> None:
    """Refuse files that have more to do with gradients than is rewritten."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = [_last_name(function) for function in calls]
    steps = [
        function
        for function in calls
        if isinstance(function, ast.Attribute)
        and function.attr == "step"
        and ast.unparse(function.value) == optimizer
    ]
    if called.count("backward") != 1 or len(steps) != 1:
        raise CannotRewrite("the file has more than one backward or update")
    clips = [each for each in called if each.startswith("clip_grad")]
    if len(clips) != (0 if clip is None else 1):
        raise CannotRewrite("the file clips gradients at places that were not seen")
    if any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in ast.walk(tree)):
        raise CannotRewrite("the file reads gradients, which would be scaled")


def _check_clip(script: Script, clip: Site, step: Site) -> None:
    """Refuse a clip that is not reached once for each update: gradients unscale once."""
    parents = script.around(step)[:-1]
    around = script.around(clip)
    inner = around[len(parents) :]
    same = len(around) > len(parents) and all(
        one is other for one, other in zip(parents, around, strict=False)
    )
    if not same or any(isinstance(node, (*_LOOPS, *_SCOPES)) for node in inner):
        raise CannotRewrite("gradients are not clipped just before the update")
    if (clip.line, clip.col) > (step.line, step.col):
        raise CannotRewrite("gradients are clipped after the update")


def _build(script: Script, backward: Site, step: Site, name: str, scaler: str) -> None:
    """Build the scaler before the loop over epochs, else after the imports."""
    file = backward.file
    around = script.around(backward), script.around(step)
    common = [
        one
        for one, _ in takewhile(
            lambda pair: pair[0] is pair[1], zip(around[0], around[1], strict=False)
        )
    ]
    function = _scope(script, backward)
    if isinstance(function, _FUNCTIONS) and function in common:
        common = common[common.index(function) + 1 :]
    loops = [node for node in common if isinstance(node, _LOOPS)]
    same = function is _scope(script, step)
    if same and len(loops) > (0 if function is None else 1):
        torch = script.module_name(file, "torch", backward)
        line = Site(file, loops[0].lineno, backward.function)
        script.insert_before(line, f"{name} = {torch}.{scaler}")
    else:
        torch = script.module_name(file, "torch")
        script.insert_after_imports(file, f"{name} = {torch}.{scaler}")


def _scope(script: Script, site: Site) -> ast.stmt | None:
    """Return the innermost function around a site, None at the top of the module."""
    around = script.around(site)
    return next((node for node in reversed(around) if isinstance(node, _FUNCTIONS)), None)


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _names(tree: ast.Module) -> set[str]:
    """Return all names and attributes that a module speaks of."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).rpartition(".")[2])
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, _SCOPES):
            found.add(node.name)
    return found
