"""Training with PyTorch: its loaders, its loop, and several devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.lint.rule import Place, rule
from trainperf.source.arguments import argument, starred
from trainperf.source.bodies import calls_in, function_of, looping, method_of, reading
from trainperf.source.iterations import stored
from trainperf.source.loops import (
    DDP,
    LOADER,
    backward_loops,
    lightning_classes,
    starts_over,
    targets,
    trains,
    used_in,
    without_grad,
)
from trainperf.source.module import Module, inside
from trainperf.source.scopes import FUNCTIONS, Function, Loop
from trainperf.source.statements import last_name, names_in, parameters

# ------------------------------------------------------------------------------ loaders

_FOLDERS = {"ImageFolder", "DatasetFolder", "ImageNet", "CocoDetection", "Flowers102", "Food101",
            "OxfordIIITPet", "Places365", "VOCDetection", "CelebA"}  # fmt: skip
_INNER = (ast.For, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@rule("DataLoader", "the training process makes each batch itself, and the model may wait for it")
def torch_workers(module: Module) -> Iterator[Place]:
    """A `DataLoader` with `num_workers=0` whose dataset or collating reads files, or loops."""
    for call in module.calls(LOADER) if trains(module) else ():
        workers = argument(call, "num_workers", 5)
        if starred(call) or (workers is not None and module.constant(workers) != 0):
            continue
        dataset, collate = argument(call, "dataset", 0), argument(call, "collate_fn", 6)
        if work := _reads(module, dataset) or _collates(module, collate):
            option = "without num_workers" if workers is None else "with num_workers=0"
            yield Place(call, f"a DataLoader {option}, whose {work}")


def _reads(module: Module, dataset: ast.expr | None) -> str:
    made = module.value(dataset) if dataset is not None else None
    if not isinstance(made, ast.Call):
        return ""
    folder, _, kind = (module.name(made.func) or "").rpartition(".")
    if folder == "torchvision.datasets" and kind in _FOLDERS:
        return f"dataset decodes images ({kind})"
    home, owner = module.defined(made.func) or (module, None)
    method = method_of(owner, "__getitem__")
    slow = method and (reading(home, method) or looping(home, method))
    return f"dataset calls {slow} for each sample" if slow else ""


def _collates(module: Module, given: ast.expr | None) -> str:
    made = module.value(given) if given is not None else None
    named = made.func if isinstance(made, ast.Call) else given
    _, found = (module.defined(named) if named is not None else None) or (module, None)
    function = method_of(found, "__call__") or found or function_of(module, given)
    loops = (node for node in inside(function) if isinstance(node, ast.For)) if function else ()
    slow = any(isinstance(node, _INNER) for loop in loops for node in inside(loop))
    return "collate_fn loops over what is in each sample" if slow else ""


_LOADS = {"pandas.read_csv", "pandas.read_parquet", "pandas.read_json", "pandas.read_excel",
          "numpy.loadtxt", "numpy.genfromtxt", "torch.load"}  # fmt: skip


@rule("__getitem__", "that may take far longer than the sample; load it once")
def torch_item_work(module: Module) -> Iterator[Place]:
    """A `Dataset` whose `__getitem__` loads the same file for every sample."""
    for owner in module.classes:
        method = method_of(owner, "__getitem__")
        if method is None or "torch.utils.data.Dataset" not in module.bases(owner):
            continue
        own = {*parameters(method)[1:], *stored(method.body)}
        for call in calls_in(module, method, 0):
            name = module.name(call.func)
            same = call.args and not names_in(call.args[0]) & own
            if name in _LOADS and same and not module.conditional(call) and not module.loops(call):
                yield Place(call, f"__getitem__ calls {name} on the same file for every sample")


@rule("DataLoader", "its workers start anew each time and may take long; build it before the loop")
def torch_loader_rebuilt(module: Module) -> Iterator[Place]:
    """A `DataLoader` built within the loop over epochs, from what stays the same."""
    steps = backward_loops(module)
    for call in module.calls(LOADER):
        epochs = next(iter(module.loops(call)), None)
        if epochs is None or module.conditional(call, epochs):
            continue
        changing = stored([epochs]) | used_in(epochs)
        if names_in(call) & changing or starts_over(module, epochs):
            continue
        if any(epochs in module.loops(step) for step in steps):
            yield Place(call, "a DataLoader built within the loop over epochs")


# ---------------------------------------------------------------------------- the step


@rule(
    ".backward( training_step",
    "Python waits until the device has computed it, and a GPU may then stand idle until the next "
    "kernels are started; log every 50 steps, and keep sums as tensors",
)
def torch_step_logging(module: Module) -> Iterator[Place]:
    """The loss of a training loop read by `.item()`, `float` or `print` in every step."""
    bodies: list[tuple[Loop | Function, set[str]]] = []
    bodies += [(loop, _losses(module, loop) - targets(loop)) for loop in backward_loops(module)]
    steps = (method_of(owner, "training_step") for owner in lightning_classes(module))
    bodies += [(step, _returned(step)) for step in steps if step is not None]
    for body, losses in bodies:
        reads = [
            Place(call, f"{read} in every step")
            for call in calls_in(module, body, 0)
            if (read := _read(module, call, losses)) and _every_time(module, call, body)
        ]
        yield from sorted(reads, key=lambda place: _position(place.node))[:1]


def _losses(module: Module, loop: Loop) -> set[str]:
    """Return the names on which `.backward()` is called, directly or scaled."""
    calls = [call for call in calls_in(module, loop, 0) if last_name(call.func) == "backward"]
    return {name for call in calls for node in (call.func, *call.args) for name in names_in(node)}


def _returned(step: Function) -> set[str]:
    """Return the names of which a `training_step` makes what it gives back, its loss."""
    returns = [node for node in inside(step) if isinstance(node, ast.Return)]
    return {name for node in returns for name in names_in(node)} - set(parameters(step))


def _read(module: Module, call: ast.Call, losses: set[str]) -> str:
    """Return how a call reads the value of a loss."""
    value: ast.expr = call
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    method, name = last_name(call.func), module.name(call.func)
    if isinstance(value, ast.Name) and value.id in losses and not call.args:
        return f"{value.id}.{method}()" if method in ("item", "cpu", "tolist", "numpy") else ""
    given = [each.id for each in call.args if isinstance(each, ast.Name) and each.id in losses]
    return f"{name}({given[0]})" if name in ("float", "print") and given else ""


def _every_time(module: Module, node: ast.AST, body: Loop | Function) -> bool:
    """Whether no condition, inner loop or early `continue` keeps `node` from a step."""
    inner = any(loop is not body for loop in module.loops(node)[:1])
    if module.conditional(node, body) or inner:
        return False
    skips = [each for each in inside(body) if isinstance(each, ast.Continue)]
    return not any(_position(skip) < _position(node) for skip in skips)


_MAKERS = {f"torch.{name}" for name in ("zeros", "ones", "arange", "full", "eye", "linspace",
                                        "zeros_like", "ones_like", "randn", "rand")}  # fmt: skip


@rule(".cuda( .to(", "Python may wait for the copy; `device=` makes it where it is needed")
def torch_transfers(module: Module) -> Iterator[Place]:
    """`torch.zeros(…).to(device)` and its like in a training loop or a module's `forward`."""
    layers = [each for each in module.classes if "torch.nn.Module" in module.bases(each)]
    bodies = {*backward_loops(module), *(method_of(layer, "forward") for layer in layers)}
    for call in module.methods("to", "cuda"):
        made = call.func.value if isinstance(call.func, ast.Attribute) else None
        name = module.name(made.func) if isinstance(made, ast.Call) else None
        if not isinstance(made, ast.Call) or name not in _MAKERS or module.conditional(call):
            continue
        device = ast.unparse(argument(call, "device", 0) or call.func).strip("'")
        moves = device.startswith(("cuda", "device")) or device.endswith("device")
        moves = moves or last_name(call.func) == "cuda"
        near = {*module.loops(call)[:1], module.function(call)}
        if moves and argument(made, "device") is None and near & bodies:
            yield Place(call, f"{name} is made on the CPU in every step and then moved")


_GRADIENT_WORDS = ("backward", "grad", "inference_mode", "attack", "adversarial", "saliency",
                   "export", "jacobian", "hessian")  # fmt: skip


@rule(".eval()", "each records a graph for a backward that never comes, which may take time")
def torch_evaluation_grad(module: Module) -> Iterator[Place]:
    """A function that calls `model.eval()` and then the model in a loop, without `no_grad`."""
    if "torch" not in module.source or "set_grad_enabled(False)" in module.source:
        return
    for call in module.methods("eval"):
        function = module.function(call)
        if not isinstance(function, FUNCTIONS) or function.decorator_list or call.args:
            continue
        text = ast.unparse(function).lower().replace("zero_grad", "")
        if any(word in text for word in _GRADIENT_WORDS) or ".train()" in text.split(".eval()")[0]:
            continue
        model = ast.unparse(call.func).removesuffix(".eval")
        later = (use for use in calls_in(module, function, 0) if _position(use) > _position(call))
        uses = [use for use in later if ast.unparse(use.func) == model and module.loops(use)]
        calls = [use for use in module.nodes if isinstance(use, ast.Call)]
        callers = [use for use in calls if last_name(use.func) == function.name]
        graded = callers and not any(without_grad(module, caller) for caller in callers)
        if uses and graded and not module.conditional(call):
            what = f"{function.name} calls the model after eval() without torch.no_grad()"
            yield Place(min(uses, key=_position), what)


@rule("detect_anomaly profile", "it looks at every operation, which may take longer than the step")
def torch_debug_modes(module: Module) -> Iterator[Place]:
    """Anomaly detection, or a profiler without a schedule, around training steps."""
    loops = backward_loops(module)
    trained = {*loops, *(module.function(loop) for loop in loops)} - {None}
    modes = ("torch.profiler.profile", "torch.autograd.profiler.profile")
    for call in module.calls("torch.autograd.detect_anomaly", *modes):
        around = module.parent(module.parent(call) or call)
        if not isinstance(around, ast.With) or module.conditional(call):
            continue
        called = {function_of(module, each.func) for each in calls_in(module, around, 0)}
        near = {*inside(around), *called, *module.loops(call)[:1]}
        if near & trained and argument(call, "schedule") is None:
            yield Place(call, f"{last_name(call.func)}() around training steps")


# ---------------------------------------------------------------------- several devices


@rule(
    "DataParallel",
    "one process runs all GPUs and copies the model to each in every step: the GPUs may wait for "
    "each other; DistributedDataParallel has a process for each",
)
def torch_data_parallel(module: Module) -> Iterator[Place]:
    """A model wrapped in `nn.DataParallel`."""
    for call in module.calls("torch.nn.DataParallel"):
        devices = argument(call, "device_ids", 1)
        if not isinstance(devices, ast.List) or len(devices.elts) > 1:
            yield Place(call, "nn.DataParallel")


@rule("DistributedDataParallel", "DDP may exchange gradients each time; once per update would do")
def torch_ddp_no_sync(module: Module) -> Iterator[Place]:
    """A loop that adds up gradients of several batches under DDP without `no_sync`."""
    meant = any(word in module.source for word in ("no_sync", "require_backward_grad_sync"))
    for loop in backward_loops(module) if any(module.calls(DDP)) and not meant else ():
        calls = (call for call in module.methods("backward") if loop in module.loops(call))
        for call in [each for each in calls if not module.conditional(each, loop)][:1]:
            if any(_updates(loop, node) for node in inside(loop) if isinstance(node, ast.If)):
                yield Place(call, "backward in every micro-step, an update in some, no no_sync()")


def _updates(loop: Loop, choice: ast.If) -> bool:
    """Whether an `if` with a modulo lets an optimizer step in some of the turns only."""
    modulo = any(isinstance(node, ast.Mod) for node in ast.walk(choice.test))
    skips = any(isinstance(node, ast.Continue) for node in choice.body)
    body = loop.body[loop.body.index(choice) :] if skips and choice in loop.body else choice.body
    nodes = [node for statement in body for node in ast.walk(statement)]
    calls = [ast.unparse(node.func).lower() for node in nodes if isinstance(node, ast.Call)]
    others = ("sched", "prof", "lr", "ema", "bar")
    steps = (call for call in calls if call.endswith(".step"))
    return modulo and any(not any(word in step for word in others) for step in steps)


_SHARED = ("Sampler", "shard", "split_dataset_by_node", "rank::", "rank ::", "[rank", "Subset",
           "prepare(", "fabric")  # fmt: skip


@rule("DistributedDataParallel", "each rank may do the whole epoch instead of its share")
def torch_unsharded_data(module: Module) -> Iterator[Place]:
    """A shuffling `DataLoader` without a sampler in a script that trains with DDP."""
    shared = any(word in module.source for word in _SHARED)
    if shared or not any(module.calls(DDP)) or not backward_loops(module):
        return
    for call in module.calls(LOADER):
        shuffles = module.constant(argument(call, "shuffle", 2)) is True
        sampled = argument(call, "sampler", 3) or argument(call, "batch_sampler", 4)
        if shuffles and not sampled and not starred(call) and "rank" not in ast.unparse(call):
            yield Place(call, "a DataLoader that shuffles, without a DistributedSampler, with DDP")


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
