"""Training steps of PyTorch, from source alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.lint.rule import Rule, literal
from trainperf.source.arguments import argument, handed
from trainperf.source.bodies import function_of
from trainperf.source.loops import backward_loops, lightning_classes, targets, without_grad
from trainperf.source.module import Module, inside
from trainperf.source.scopes import FUNCTIONS, Function, Loop
from trainperf.source.statements import names_in, variables

_BENCHMARK = "torch.backends.cudnn.benchmark"
_ON_PURPOSE = ("determinis", "reproduc", "manual_seed", "seed")


class TorchCudnnBenchmark(Rule):
    """`torch.backends.cudnn.benchmark = False` in a file that does not ask to be repeatable."""

    words = ("benchmark",)
    text = (
        "cudnn.benchmark = False: cuDNN chooses convolution kernels by rule of thumb, which need "
        "not be the fastest; images of one size may gain by True"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if any(word in module.source.lower() for word in _ON_PURPOSE):
            return
        for node in module.nodes:
            if not isinstance(node, ast.Assign) or module.conditional(node):
                continue
            named = any(module.name(each) == _BENCHMARK for each in node.targets)
            if named and module.constant(node.value) is False:
                yield node, self.text

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        return literal(node.value, "True") if isinstance(node, ast.Assign) else None


_PROFILERS = ("torch.profiler.profile", "torch.autograd.profiler.profile")


class TorchDebugModes(Rule):
    """Anomaly detection, deterministic algorithms or a profiler over a whole training."""

    words = ("detect_anomaly", "profile", "use_deterministic_algorithms")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        loops = backward_loops(module)
        for call in module.calls("torch.autograd.set_detect_anomaly"):
            if module.constant(argument(call, "mode", 0)) is True and not module.conditional(call):
                yield call, f"set_detect_anomaly(True): {_ANOMALY}"
        for call in module.calls("torch.autograd.detect_anomaly"):
            trained = any(
                loop in module.loops(call) or call in _heads(module, loop) for loop in loops
            ) or _calls_a_loop(module, call, loops)
            if trained and not module.conditional(call) and not call.args:
                yield call, f"detect_anomaly() around training steps: {_ANOMALY}"
        for call in module.calls("torch.use_deterministic_algorithms"):
            on = module.constant(argument(call, "mode", 0)) is True
            if on and loops and not module.conditional(call):
                yield (
                    call,
                    (
                        "use_deterministic_algorithms(True): the fastest kernels of a GPU may be "
                        "left out; it can go where runs need not repeat bit for bit"
                    ),
                )
        for call in module.calls(*_PROFILERS):
            whole = argument(call, "schedule") is None and not module.conditional(call)
            if whole and any(call in _heads(module, loop) for loop in loops):
                yield (
                    call,
                    (
                        "a profiler without a schedule around the training loop: it writes an "
                        "event for every operation of each step, which may take long"
                    ),
                )


_ANOMALY = (
    "it walks the Python stack at every operation and looks for NaN in every gradient, which may "
    "take several times as long as the step"
)


def _calls_a_loop(module: Module, head: ast.Call, loops: list[Loop]) -> bool:
    """Whether the `with` statement of `head` calls a function of this file that trains."""
    around = module.parent(module.parent(head) or head)
    if not isinstance(around, ast.With):
        return False
    functions = {module.function(loop) for loop in loops} - {None}
    called = (each for each in inside(around) if isinstance(each, ast.Call))
    return any(function_of(module, each.func) in functions for each in called)


def _heads(module: Module, loop: ast.AST) -> set[ast.AST]:
    """Return the expressions of the `with` statements around a loop."""
    return {
        item.context_expr
        for each in module.around(loop)
        if isinstance(each, ast.With)
        for item in each.items
    }


_GRADIENT_WORDS = ("backward", "grad", "inference_mode", "attack", "adversarial", "saliency",
                   "export", "jacobian", "hessian")  # fmt: skip


class TorchEvaluationGrad(Rule):
    """A function that calls `model.eval()` and then the model in a loop, without `no_grad`."""

    words = (".eval()",)
    text = (
        "{} calls the model after eval() without torch.no_grad(): each forward records a graph for "
        "a backward that never comes, which may take time and memory"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if "torch" not in module.source:
            return
        for call in module.methods("eval"):
            function = module.function(call)
            plain = isinstance(module.parent(call), ast.Expr) and not call.args
            if not plain or not isinstance(function, FUNCTIONS) or module.conditional(call):
                continue
            if function.decorator_list or _mentions_gradients(function):
                continue
            assert isinstance(call.func, ast.Attribute)
            place = _forward(module, function, call, ast.dump(call.func.value))
            if place is not None and _called_with_grad(module, function):
                yield place, self.text.format(function.name)


def _forward(module: Module, function: Function, call: ast.Call, model: str) -> ast.Call | None:
    for node in inside(function):
        if (
            isinstance(node, ast.Call)
            and node.lineno > call.lineno
            and node.args
            and ast.dump(node.func) == model
            and module.loops(node)
        ):
            return node
    return None


def _mentions_gradients(function: Function) -> bool:
    text = ast.unparse(function).lower().replace("zero_grad", "")
    return any(word in text for word in _GRADIENT_WORDS) or ".train()" in text.split(".eval()")[0]


def _called_with_grad(module: Module, function: Function) -> bool:
    """Whether this file calls the function, and never under `no_grad`."""
    calls = [
        node
        for node in module.nodes
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == function.name)
            or (isinstance(node.func, ast.Attribute) and node.func.attr == function.name)
        )
    ]
    grad_off = "set_grad_enabled(False)" in module.source
    return bool(calls) and not grad_off and not any(without_grad(module, each) for each in calls)


_HAVE_IT = ("Adam", "AdamW", "SGD", "Adagrad")


class TorchFusedOptimizer(Rule):
    """An optimizer with `foreach=False` that could be fused."""

    words = ("foreach",)
    text = (
        "foreach=False: the optimizer walks over the weights tensor by tensor, with several "
        "kernels for each, which may take longer than one fused update"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(*(f"torch.optim.{name}" for name in _HAVE_IT)):
            alone = module.constant(argument(call, "foreach")) is False
            other = argument(call, "fused") is not None or argument(call, "differentiable")
            if alone and not other:
                yield call, self.text

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        given = node.keywords if isinstance(node, ast.Call) else []
        own = (one for one in given if one.arg == "foreach" and literal(one.value, ""))
        return next(((one, "fused=True") for one in own), None)


class TorchLaunchBlocking(Rule):
    """`os.environ["CUDA_LAUNCH_BLOCKING"] = "1"`."""

    words = ("CUDA_LAUNCH_BLOCKING",)
    text = (
        "CUDA_LAUNCH_BLOCKING is {}: Python waits for each kernel to end before it starts the "
        "next, and the GPU may stand idle in between"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for node, name, value in variables(module):
            if name == "CUDA_LAUNCH_BLOCKING" and value not in ("", "0"):
                yield node, self.text.format(value)


_READS = {"item", "cpu", "tolist", "numpy"}


class TorchStepLogging(Rule):
    """The loss of a training loop read by `.item()`, `float` or `print` in every step."""

    words = (".backward(", "training_step")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for loop in backward_loops(module):
            losses = _losses(loop) - targets(loop)
            found = sorted(
                (
                    (node.lineno, node.col_offset, node, read)
                    for node in inside(loop)
                    if isinstance(node, ast.Call) and (read := _reads(module, node, losses))
                    if module.loops(node)[:1] == [loop] and not _now_and_then(module, node, loop)
                ),
                key=lambda each: each[:2],
            )
            if found:
                *_, node, read = found[0]
                yield node, f"{read} {_TEXT}"
        for step in _lightning_steps(module):
            reads = [
                (node, read)
                for node in inside(step)
                if isinstance(node, ast.Call) and not module.conditional(node)
                if (read := _reads(module, node, _returned(step)))
            ]
            if reads:
                node, read = min(reads, key=lambda each: (each[0].lineno, each[0].col_offset))
                yield node, f"{read} {_TEXT}"


_TEXT = (
    "in every step: Python waits until the device has computed it, and a GPU may then stand idle "
    "until the next kernels are started; log every 50 steps, and keep sums as tensors"
)


def _lightning_steps(module: Module) -> Iterator[ast.FunctionDef]:
    for owner in lightning_classes(module):
        for each in owner.body:
            if isinstance(each, ast.FunctionDef) and each.name == "training_step":
                yield each


def _returned(step: ast.FunctionDef) -> set[str]:
    """Return the names that a `training_step` gives back as its loss."""
    found: set[str] = set()
    for each in inside(step):
        value = each.value if isinstance(each, ast.Return) else None
        listed = value.values if isinstance(value, ast.Dict) else [value]
        found |= {one.id for one in listed if isinstance(one, ast.Name)}
    return found - {each.arg for each in step.args.args}


def _losses(loop: Loop) -> set[str]:
    """Return the names on which `.backward()` is called, directly or scaled."""
    found: set[str] = set()
    for node in inside(loop):
        method = node.func if isinstance(node, ast.Call) else None
        if isinstance(method, ast.Attribute) and method.attr == "backward":
            assert isinstance(node, ast.Call)
            found |= {name for each in (method.value, *node.args) for name in names_in(each)}
    return found


def _reads_inside(
    module: Module, call: ast.Call, function: ast.AST, losses: set[str]
) -> str | None:
    """Return what a function of this file that gets the loss reads of it, if it always does."""
    if not isinstance(function, ast.FunctionDef):
        return None
    given = handed(function, call)
    inner = {name for name, v in given if isinstance(v, ast.Name) and v.id in losses}
    if not inner or any(isinstance(each, ast.Return) for each in inside(function)):
        return None
    for node in inside(function):
        if isinstance(node, ast.Call) and not module.conditional(node):
            read = _reads(module, node, inner, deeper=False)
            if read is not None:
                return f"{function.name} calls {read}"
    return None


def _reads(module: Module, call: ast.Call, losses: set[str], deeper: bool = True) -> str | None:
    if isinstance(call.func, ast.Attribute) and call.func.attr in _READS and not call.args:
        value = call.func.value
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value
        if isinstance(value, ast.Name) and value.id in losses:
            return f"{value.id}.{call.func.attr}()"
    if deeper and (local := function_of(module, call.func)) is not None:
        return _reads_inside(module, call, local, losses)
    if module.name(call.func) in ("float", "print"):
        for each in call.args:
            if isinstance(each, ast.Name) and each.id in losses:
                return f"{module.name(call.func)}({each.id})"
    return None


def _now_and_then(module: Module, node: ast.AST, loop: Loop) -> bool:
    """Whether a condition, or an early `continue`, keeps `node` from some of the steps."""
    if module.conditional(node, loop):
        return True
    return any(
        isinstance(each, ast.Continue) and each.lineno < getattr(node, "lineno", 0)
        for each in inside(loop)
    )


_MAKERS = {f"torch.{name}" for name in ("zeros", "ones", "arange", "full", "eye", "linspace",
                                        "zeros_like", "ones_like", "randn", "rand")}  # fmt: skip


class TorchTransfers(Rule):
    """`torch.zeros(…).to(device)` and its like in a training loop or a module's `forward`."""

    words = (".cuda(", ".to(")
    text = (
        "{} is made on the CPU in every step and then moved: Python may wait for the copy; "
        "`device=` makes it where it is needed"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        steps = set(backward_loops(module))
        for call in module.methods("to", "cuda"):
            assert isinstance(call.func, ast.Attribute)
            made = call.func.value
            name = module.name(made.func) if isinstance(made, ast.Call) else None
            if name not in _MAKERS or not isinstance(made, ast.Call):
                continue
            if argument(made, "device") is not None or not _moves(module, call):
                continue
            if module.conditional(call):
                continue
            if steps & set(module.loops(call)[:1]) or _in_forward(module, call):
                yield call, self.text.format(name)


def _moves(module: Module, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    target = argument(call, "device", 0)
    if target is None:
        return False
    text = ast.unparse(target)
    return text.endswith("device") or text.startswith(("'cuda", "device"))


def _in_forward(module: Module, call: ast.Call) -> bool:
    function = module.function(call)
    if not isinstance(function, ast.FunctionDef) or function.name != "forward":
        return False
    owner = module.parent(function)
    return isinstance(owner, ast.ClassDef) and "torch.nn.Module" in module.bases(owner)


class TorchZeroGrad(Rule):
    """`zero_grad(set_to_none=False)` in a training loop."""

    words = ("zero_grad",)
    text = (
        "zero_grad(set_to_none=False) writes zeros into every gradient, and the backward adds to "
        "them: both may take time that the default does not"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if "torch" not in module.source:
            return
        for call in module.methods("zero_grad"):
            kept = module.constant(argument(call, "set_to_none", 0)) is False
            if kept and module.loops(call):
                yield call, self.text

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        if not isinstance(node, ast.Call):
            return None
        return literal(argument(node, "set_to_none", 0), "True")


class TorchFloat64(Rule):
    """`set_default_dtype(torch.float64)` in a file that trains."""

    words = ("set_default_",)
    text = (
        "float64 by default: the model may run at half the speed of float32 on a CPU, and far "
        "below on most GPUs"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("torch.set_default_dtype", "torch.set_default_tensor_type"):
            given = argument(call, "d", 0) or argument(call, "t", 0)
            double = given is not None and module.name(given) in _DOUBLE
            if double and backward_loops(module) and not module.conditional(call):
                yield call, self.text


_DOUBLE = ("torch.float64", "torch.double", "torch.DoubleTensor", "torch.cuda.DoubleTensor")


_ALLOW_TF32 = "torch.backends.cuda.matmul.allow_tf32"


class TorchMatmulPrecision(Rule):
    """`set_float32_matmul_precision("highest")` or `allow_tf32 = False`."""

    words = ("float32_matmul_precision", "allow_tf32")
    text = (
        "{}: from Ampere on, matrix products of float32 may be several times as fast in TF32, with "
        "less precise factors"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        places: list[tuple[ast.AST, str]] = [
            (call, "set_float32_matmul_precision('highest')")
            for call in module.calls("torch.set_float32_matmul_precision")
            if module.constant(argument(call, "precision", 0)) == "highest"
        ]
        switched = [
            node
            for node in module.nodes
            if isinstance(node, ast.Assign)
            and any(module.name(each) == _ALLOW_TF32 for each in node.targets)
        ]
        if all(module.constant(node.value) is False for node in switched):
            places += [(node, "allow_tf32 = False") for node in switched]
        for node, seen in places:
            if not module.conditional(node):
                yield node, self.text.format(seen)
