"""Loaders of PyTorch, from source alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.lint.rule import Rule
from trainperf.source.arguments import argument, starred
from trainperf.source.bodies import function_of, looping, reading
from trainperf.source.loops import (
    LOADER,
    assigned_in,
    backward_loops,
    iterated,
    starts_over,
    targets,
    trains,
    used_in,
)
from trainperf.source.module import Module, inside
from trainperf.source.scopes import FUNCTIONS, LOOPS
from trainperf.source.statements import names_in

_LOADS = {"pandas.read_csv", "pandas.read_parquet", "pandas.read_json", "pandas.read_excel",
          "numpy.loadtxt", "numpy.genfromtxt", "torch.load"}  # fmt: skip


class TorchItemWork(Rule):
    """A `Dataset` whose `__getitem__` loads the same file for every sample."""

    words = ("__getitem__",)
    text = (
        "__getitem__ calls {} on the same file for every sample, which may take far longer than "
        "the sample; load it once"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for owner in module.classes:
            if "torch.utils.data.Dataset" not in module.bases(owner):
                continue
            for method in owner.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
                    yield from self._loads(module, method)

    def _loads(self, module: Module, method: ast.FunctionDef) -> Iterator[tuple[ast.AST, str]]:
        own = {each.arg for each in method.args.args[1:]}
        own |= {each.id for each in inside(method) if isinstance(each, ast.Name) and _stored(each)}
        for node in inside(method):
            if not isinstance(node, ast.Call) or module.name(node.func) not in _LOADS:
                continue
            same = node.args and not names_in(node.args[0]) & own
            if same and not module.conditional(node) and not module.loops(node):
                yield node, self.text.format(module.name(node.func))


def _stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


class TorchLoaderRebuilt(Rule):
    """A `DataLoader` built within the loop over epochs, from what stays the same."""

    words = ("DataLoader",)
    text = (
        "a DataLoader built within the loop over epochs: its workers start anew each time and the "
        "model may wait for them; build it once, before the loop"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        steps = backward_loops(module)
        for call in module.calls(LOADER):
            around = module.loops(call)
            epochs = around[0] if around else None
            if not isinstance(epochs, LOOPS) or module.conditional(call, epochs):
                continue
            if not any(epochs in module.loops(step) for step in steps):
                continue
            changing = assigned_in(epochs) | used_in(epochs)
            if names_in(call) & changing or starts_over(module, epochs):
                continue
            yield call, self.text


class TorchPinMemory(Rule):
    """A `DataLoader` without `pin_memory` whose batches the loop moves by `.cuda()`."""

    words = ("DataLoader",)
    text = (
        "a DataLoader without pin_memory=True, whose batches go to the GPU: the driver copies each "
        "first, and the training process may wait for it"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        seen = set()
        for loop in backward_loops(module):
            if not self._to_gpu(module, loop):
                continue
            for each in iterated(loop):
                call = module.value(each)
                if not isinstance(call, ast.Call) or module.name(call.func) != LOADER:
                    continue
                pinned = argument(call, "pin_memory", 7)
                wanted = pinned is None or module.constant(pinned) is False
                if wanted and not starred(call) and call not in seen:
                    seen.add(call)
                    yield call, self.text

    def _to_gpu(self, module: Module, loop: ast.AST) -> bool:
        batch = targets(loop)  # type: ignore[arg-type]
        for node in inside(loop):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if not names_in(node.func.value) & batch:
                continue
            if node.func.attr == "cuda":
                return True
            device = argument(node, "device", 0)
            if node.func.attr == "to" and device is not None and _is_cuda(module, device):
                return True
        return False


def _is_cuda(module: Module, node: ast.expr) -> bool:
    node = module.value(node)
    if isinstance(node, ast.Call) and module.name(node.func) == "torch.device" and node.args:
        node = node.args[0]
    text = module.constant(node)
    return isinstance(text, str) and text.startswith("cuda")


_COUNTS = {"os.cpu_count", "multiprocessing.cpu_count", "torch.multiprocessing.cpu_count",
           "psutil.cpu_count"}  # fmt: skip


class TorchTooManyWorkers(Rule):
    """A `DataLoader` with `num_workers=os.cpu_count()`."""

    words = ("cpu_count",)
    text = (
        "num_workers is {}, which counts the cores of the host, not those of the container or of "
        "this rank: too many workers may take the cores from each other and from the training"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(LOADER):
            workers = argument(call, "num_workers", 5)
            count = module.value(workers) if workers is not None else None
            if isinstance(count, ast.BoolOp):
                count = module.value(count.values[0])
            if isinstance(count, ast.Call) and module.name(count.func) in _COUNTS:
                yield call, self.text.format(ast.unparse(count))


_FOLDERS = {
    f"torchvision.datasets.{name}"
    for name in ("ImageFolder", "DatasetFolder", "ImageNet", "CocoDetection", "Flowers102",
                 "Food101", "OxfordIIITPet", "Places365", "VOCDetection", "CelebA")
}  # fmt: skip


class TorchWorkers(Rule):
    """A `DataLoader` with `num_workers=0` whose dataset or collating reads files, or loops."""

    words = ("DataLoader",)
    text = (
        "a DataLoader {}, whose {}: the training process makes each batch itself, on one core, and "
        "the model may wait for it"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if not any(module.calls(LOADER)) or not trains(module):
            return
        for call in module.calls(LOADER):
            workers = argument(call, "num_workers", 5)
            if starred(call) or (workers is not None and module.constant(workers) != 0):
                continue
            read = _reads(module, argument(call, "dataset", 0)) or _collates(module, call)
            if read is not None:
                seen = "without num_workers" if workers is None else "with num_workers=0"
                yield call, self.text.format(seen, read)


def _reads(module: Module, dataset: ast.expr | None) -> str | None:
    made = module.value(dataset) if dataset is not None else None
    if not isinstance(made, ast.Call):
        return None
    name = module.name(made.func)
    if name in _FOLDERS:
        return f"dataset decodes images ({(name or '').rpartition('.')[2]})"
    home, owner = module.defined(made.func) or (module, None)
    for method in owner.body if isinstance(owner, ast.ClassDef) else ():
        if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
            slow = reading(home, method) or looping(home, method)
            return f"dataset calls {slow} for each sample" if slow is not None else None
    return None


def _collates(module: Module, call: ast.Call) -> str | None:
    """Say of a `collate_fn` that it loops over more than the samples."""
    given = argument(call, "collate_fn", 6)
    function: ast.AST | None = function_of(module, given)
    named = module.defined(given) if function is None and given is not None else None
    if named is not None and isinstance(named[1], FUNCTIONS):
        function = named[1]
    made = module.value(given) if given is not None else None
    found = module.defined(made.func) if isinstance(made, ast.Call) else None
    owner = None if found is None else found[1]
    if isinstance(owner, ast.ClassDef):
        function = next((each for each in owner.body if _named(each, "__call__")), None)
    for loop in inside(function) if function is not None else ():
        if isinstance(loop, ast.For) and any(isinstance(each, _INNER) for each in inside(loop)):
            return "collate_fn loops over what is in each sample"
    return None


def _named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


_INNER = (ast.For, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
