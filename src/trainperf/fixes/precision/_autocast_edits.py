"""A training loop rewritten for autocast, and for the scaled loss that float16 needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.rewrite.arguments import RecordedCall, Wanted, set_at_origin
from trainperf.source.arguments import keyword
from trainperf.source.origins.calls import Elsewhere
from trainperf.source.statements import last_name

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)

_AUTOCAST = re.compile(r"autocast|torch\.autocast|([\w.]+\.)?amp\.autocast(_mode\.autocast)?")

AS_OTHER_TYPE = frozenset(
    {"float", "to", "type", "double", "argmax", "argsort", "long", "int", "bool"}
)
"""Methods whose result NumPy has a type for, whatever the type of the tensor."""

UNSAFE_ON_CUDA = ("BCELoss", "binary_cross_entropy")
"""PyTorch refuses these in a CUDA autocast region; their "with_logits" kin are safe."""


def put_autocast(
    script: Script, forward: Site, backward: Site | None, device: str, dtype: str
) -> None:
    """Put all from the forward to the statement that makes the loss under autocast.

    A region of the file's own around the forward, which was off in the run, is replaced.
    Where the backward stands in another function than the forward, all from there to the
    end of the function that returns the loss goes in. `backward` is None where a library
    calls it. Raises `CannotRewrite` where what follows could not be computed in 16 bits,
    and for float16 where the file speaks of mixed precision itself.
    """
    tree = script.module(forward.file)
    names = _names(tree)
    if dtype == "float16" and names & {"autocast", "GradScaler"}:
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
    region = f'{torch}.autocast(device_type="{device}", dtype={torch}.{dtype})'
    own = _own_region(script, forward, device)
    if own is not None:
        script.replace_call(own, region)
        return
    if backward is None:
        backward = _library_backward(script, forward)
    if backward is not None and _scope(script, forward) is _scope(script, backward):
        _wrap_to_loss(script, forward, backward, f"with {region}:")
    else:
        script.wrap_statements(forward, _returned(script, forward), f"with {region}:")


def turn_on(
    script: Script, forward: Site, device: str, dtype: str, data: Mapping[str, Any]
) -> bool:
    """Enable the region of autocast that the file itself has around the forward.

    That is done where its `enabled` comes from, so that a `GradScaler` which goes by the same
    goes along. False where there is no such region, or it is of another device or type.
    Raises `CannotRewrite` where the command chooses.
    """
    call = _region(script, forward)
    chosen = keyword(call, "enabled") if call is not None else None
    if call is None or chosen is None or isinstance(chosen.value, ast.Constant):
        return False
    scaled = "GradScaler" in _names(script.module(forward.file))
    given = _dtype(call, device)
    if _device(call) not in ("", device) or not (given == dtype or (given and scaled)):
        return False
    if given == "float16" and not scaled:
        return False
    seen = RecordedCall.of({**data, "now": False}, "enabled", {})
    try:
        site = script.site_of(forward, call)
        set_at_origin(script, site, Wanted("enabled", "True"), seen, shared=True)
    except Elsewhere:
        raise
    except CannotRewrite:
        return False
    return True


def _device(call: ast.Call) -> str:
    """Return the device that a region is of, "" where that is worked out."""
    callee = ast.unparse(call.func)
    for device in ("cuda", "cpu"):
        if f"{device}.amp" in callee:
            return device
    given = keyword(call, "device_type")
    node = given.value if given else next(iter(call.args), None)
    return str(node.value).partition(":")[0] if isinstance(node, ast.Constant) else ""


def _dtype(call: ast.Call, device: str) -> str:
    """Return the type that a region computes in, "" where that is worked out."""
    given = keyword(call, "dtype")
    node = given.value if given else next(iter(call.args[1:2]), None)
    if node is None:
        return "float16" if device == "cuda" else "bfloat16"
    named = re.fullmatch(r"(?:torch\.)?(float16|half|bfloat16)", ast.unparse(node))
    return "" if named is None else named[1].replace("half", "float16")


def _own_region(script: Script, forward: Site, device: str) -> Site | None:
    """Return the region of autocast that the file itself has around the forward, or None.

    It was off in the run: not enabled, or of another device.
    """
    call = _region(script, forward)
    if call is None:
        return None
    enabled = [each.value for each in call.keywords if each.arg in ("enabled", None)]
    if not enabled and f"'{device}" in ast.unparse(call):
        raise CannotRewrite("the forward is under autocast already")
    return script.site_of(forward, call)


def _region(script: Script, forward: Site) -> ast.Call | None:
    """Return the call of autocast that the file itself has around the forward."""
    around = script.around(forward)
    start = max((i for i, node in enumerate(around) if isinstance(node, _SCOPES)), default=-1)
    for node in reversed(around[start + 1 :]):
        if not isinstance(node, ast.With | ast.AsyncWith):
            continue
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and _AUTOCAST.fullmatch(ast.unparse(call.func)):
                return call
    return None


def _library_backward(script: Script, forward: Site) -> Site | None:
    """Return the first call behind the forward, in its function, that is to go backward."""
    function = _scope(script, forward)
    tree: ast.AST = script.module(forward.file) if function is None else function
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    after = [
        node
        for node in sorted(calls, key=lambda node: (node.lineno, node.col_offset))
        if node.lineno > forward.line and last_name(node.func).endswith("backward")
    ]
    return script.site_of(forward, after[0]) if after else None


def _name_loss(script: Script, statement: ast.stmt, backward: Site, header: str) -> None:
    """Give the loss of `loss_of(model(x)).backward()` a name: only the forward goes under it."""
    text = script.expression(backward)
    call = ast.parse(f"({text})", mode="eval").body
    alone = isinstance(statement, ast.Expr) and ast.unparse(statement) == ast.unparse(call)
    if not alone or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        raise CannotRewrite(
            "forward and backward stand in one statement: give the loss a name, so that only "
            "the forward goes under autocast"
        )
    loss = script.free_name(backward.file, "loss", "total_loss")
    value = ast.unparse(call.func.value)
    call.func.value = ast.Name(loss)
    script.replace_statement(backward, f"{header}\n    {loss} = {value}\n{ast.unparse(call)}")


def _wrap_to_loss(script: Script, forward: Site, backward: Site, header: str) -> None:
    """Put all from the forward to the last statement that makes what goes backward under it."""
    places = script.around(forward), script.around(backward)
    if places[0][-1] is places[1][-1]:
        _name_loss(script, places[1][-1], backward, header)
        return
    taken = {
        ast.unparse(node)
        for node in ast.walk(ast.parse(f"({script.expression(backward)})"))
        if isinstance(node, ast.Name | ast.Attribute)
    }
    for node in reversed(_between(script.module(forward.file), *places)):
        made = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
        if any(isinstance(each.ctx, ast.Store) and ast.unparse(each) in taken for each in made):
            last = Site(forward.file, node.lineno, forward.function, node.col_offset)
            script.wrap_statements(forward, last, header)
            return
    script.wrap_statements(forward, forward, header, until=backward)


def _between(
    tree: ast.Module, one: Sequence[ast.stmt], other: Sequence[ast.stmt]
) -> list[ast.stmt]:
    """Return the statements of the block around both, from that with `one` to before `other`."""
    for node in ast.walk(tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if not isinstance(block, list):
                continue
            first = next((i for i, each in enumerate(block) if each in one), None)
            last = next((i for i, each in enumerate(block) if each in other), None)
            if first is not None and last is not None and first < last:
                return block[first:last]
    return []


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
    names = _names_in(around[-1], ast.Store)
    scope = next((node for node in reversed(around) if isinstance(node, _FUNCTIONS)), tree)
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute) and node.attr == "numpy":
            methods = [each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)]
            roots = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            handed = roots & names - _made_anew(scope, around[-1], node)
            if handed and not AS_OTHER_TYPE & set(methods):
                raise CannotRewrite(
                    f"line {node.lineno} hands what the model returned to NumPy, which has no "
                    "bfloat16: put .float() before it"
                )


def _made_anew(scope: ast.AST, forward: ast.stmt, use: ast.AST) -> set[str]:
    """Return the names that are surely given something else between a forward and a use of them.

    What its own block gives them may be computed under autocast as well.
    """
    names: set[str] = set()
    for block in _blocks_around(scope, forward, use):
        for node in block:
            if isinstance(node, ast.Assign) and node.lineno > (forward.end_lineno or 0):
                read, stored = _names_in(node.value, ast.Load), set[str]()
                for target in node.targets:
                    stored |= _names_in(target, ast.Store)
                names |= stored - read
    return names


def _blocks_around(scope: ast.AST, forward: ast.stmt, use: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield of each block around a use, not of the forward's, the statements before its own."""
    for node in ast.walk(scope):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list) and forward not in block:
                held = (i for i, one in enumerate(block) if use in ast.walk(one))
                yield block[: next(held, 0)]


def _names_in(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {
        each.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and isinstance(each.ctx, context)
    }


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
    name = script.free_name(file, "scaler", "grad_scaler")
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
    called = [last_name(function) for function in calls]
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
