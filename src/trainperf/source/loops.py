"""Training loops as they stand in source."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module, inside
from trainperf.source.scopes import FUNCTIONS, LOOPS, Loop
from trainperf.source.statements import called, names_in

_WRAPPERS = {"enumerate", "tqdm", "zip", "islice", "iter", "track", "trange", "progress_bar"}
DDP = "torch.nn.parallel.DistributedDataParallel"
LOADER = "torch.utils.data.DataLoader"
_LIGHTNING = {"lightning.LightningModule", "lightning.LightningDataModule"}


def backward_loops(module: Module) -> list[Loop]:
    """Return the loops of each `loss.backward()` of PyTorch that an optimizer follows.

    Of nested ones the innermost, each once, in order of the source. A backward without
    any `.step()` in the function, or an update from `.grad` by hand, is no training.
    """
    found: dict[ast.AST, None] = {}
    for call in module.methods("backward"):
        around = module.loops(call)
        function = module.function(call)
        body = function if function is not None else around[-1] if around else None
        if around and body is not None and _steps(body):
            found.setdefault(around[0])
    return [each for each in found if isinstance(each, LOOPS)]


def _steps(body: ast.AST) -> bool:
    return any(_updates(each) for each in inside(body))


def _updates(node: ast.AST) -> bool:
    """Whether `node` is `optimizer.step()`, `w -= lr * w.grad` or `w.add_(w.grad)`."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add | ast.Sub) and _gradients(node.value)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    by_hand = node.func.attr in ("add_", "sub_") and any(map(_gradients, node.args))
    return node.func.attr == "step" or by_hand


def _gradients(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in ast.walk(node))


def trains(module: Module) -> bool:
    """Tell whether the file holds a training loop, a call of `fit`, or parts of Lightning's."""
    found = (backward_loops, fits, tapes, lightning_classes)
    return any(each(module) for each in found) or any(module.calls("lightning.Trainer"))


def lightning_classes(module: Module) -> list[ast.ClassDef]:
    """Return the classes of which Lightning's `Trainer` takes steps or loaders."""
    return [each for each in module.classes if module.bases(each) & _LIGHTNING]


def fits(module: Module) -> list[ast.Call]:
    """Return the calls of a `fit` method, in a file that knows Keras."""
    if "keras" not in module.source:
        return []
    return list(module.methods("fit"))


def tapes(module: Module) -> list[ast.With]:
    """Return the `with tf.GradientTape() as tape:` statements."""
    found = []
    for call in module.calls("tensorflow.GradientTape"):
        statement = next((each for each in module.around(call) if isinstance(each, ast.With)), None)
        if statement is not None and any(i.context_expr is call for i in statement.items):
            found.append(statement)
    return found


def iterated(node: Loop) -> Iterator[ast.expr]:
    """Yield what a loop iterates over, out of `enumerate`, `tqdm` and their like."""
    if isinstance(node, ast.While):
        return
    stack = [node.iter]
    while stack:
        each = stack.pop()
        if isinstance(each, ast.Call) and called(each) in _WRAPPERS:
            stack.extend(each.args)
            continue
        yield each


def targets(node: Loop) -> set[str]:
    """Return the names that a loop binds anew in each turn by its head."""
    return names_in(node.target) if isinstance(node, ast.For | ast.AsyncFor) else set()


def used_in(loop: ast.AST) -> set[str]:
    """Return the names whose methods a loop calls as statements, which may change them."""
    return {
        each.value.func.value.id
        for each in inside(loop)
        if isinstance(each, ast.Expr)
        and isinstance(each.value, ast.Call)
        and isinstance(each.value.func, ast.Attribute)
        and isinstance(each.value.func.value, ast.Name)
    }


def starts_over(module: Module, loop: ast.AST) -> bool:
    """Whether each turn trains a model of its own: folds, seeds, settings."""
    for node in inside(loop):
        if isinstance(node, ast.Call):
            name = module.name(node.func) or ""
            if name.startswith(("torch.nn.utils.", "torch.nn.functional.")):
                continue
            if name.startswith(("torch.optim.", "torch.nn.")):
                return True
            own = node.func.id if isinstance(node.func, ast.Name) else ""
            bound = (module.bindings(node.func) or []) if own else []
            if any(each.kind in ("value", "parameter", "with", "loop") for each in bound):
                continue  # a model that is called, not what makes one
            if any(word in own.lower() for word in ("optim", "model", "adam", "sgd")):
                return True
    return False


def without_grad(module: Module, node: ast.AST) -> bool:
    """Tell whether `node` stands under `no_grad` or its like, by `with` or decorator."""
    for each in module.around(node):
        if isinstance(each, ast.With | ast.AsyncWith) and any(
            _grad_mode(item.context_expr) for item in each.items
        ):
            return True
        if isinstance(each, FUNCTIONS) and any(map(_grad_mode, each.decorator_list)):
            return True
    return False


def _grad_mode(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return any(word in text for word in ("no_grad", "inference_mode", "grad_enabled", "inference"))
