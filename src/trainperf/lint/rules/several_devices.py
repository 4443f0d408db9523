"""Training on several devices, from source alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.lint.rule import Rule
from trainperf.source.arguments import argument, starred
from trainperf.source.datasets import is_dataset
from trainperf.source.loops import DDP, LOADER, backward_loops, fits, iterated, targets
from trainperf.source.module import Module, inside
from trainperf.source.statements import names_in, variables


class TorchDataParallel(Rule):
    """A model wrapped in `nn.DataParallel`."""

    words = ("DataParallel",)
    text = (
        "nn.DataParallel runs all GPUs from one Python process and copies the model to each of "
        "them in every step: the GPUs may wait for each other; DistributedDataParallel has a "
        "process for each"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("torch.nn.DataParallel"):
            devices = argument(call, "device_ids", 1)
            one = isinstance(devices, ast.List) and len(devices.elts) < 2
            if not one:
                yield call, self.text


class TorchDdpNoSync(Rule):
    """A loop that adds up gradients of several batches under DDP without `no_sync`."""

    words = ("DistributedDataParallel",)
    text = (
        "backward in every micro-step and an update only in some of them, without no_sync(): DDP "
        "may exchange all gradients after each, where once per update would do"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if not any(module.calls(DDP)):
            return
        if any(word in module.source for word in ("no_sync", "require_backward_grad_sync")):
            return
        for loop in backward_loops(module):
            for node in inside(loop):
                call = node if isinstance(node, ast.Call) else None
                if call is None or not isinstance(call.func, ast.Attribute):
                    continue
                if call.func.attr == "backward" and _updates_now_and_then(module, loop, call):
                    yield call, self.text
                    break


def _updates_now_and_then(module: Module, loop: ast.AST, backward: ast.Call) -> bool:
    if module.conditional(backward, loop):
        return False
    for node in inside(loop):
        if not isinstance(node, ast.If) or not _is_modulo(node.test):
            continue
        body = ast.Module(body=[*node.body], type_ignores=[])
        if _steps(body):
            return True
        if any(isinstance(each, ast.Continue) for each in node.body) and _steps(loop):
            return node.lineno > backward.lineno
    return False


def _is_modulo(test: ast.expr) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(test))


def _steps(body: ast.AST) -> bool:
    for node in inside(body):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value).lower()
            schedules = any(word in owner for word in ("sched", "prof", "lr", "ema", "bar"))
            if node.func.attr == "step" and not schedules:
                return True
    return False


class TorchDdpUnusedParameters(Rule):
    """`DistributedDataParallel(find_unused_parameters=True)`."""

    words = ("find_unused_parameters",)
    text = (
        "find_unused_parameters=True: DDP walks over the whole graph before each backward, which "
        "may be in vain if every step uses all parameters"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(DDP):
            searches = module.constant(argument(call, "find_unused_parameters")) is True
            if searches and argument(call, "static_graph") is None:
                yield call, self.text


_SHARED = ("Sampler", "shard", "split_dataset_by_node", "rank::", "rank ::", "[rank", "Subset",
           "prepare(", "fabric")  # fmt: skip


class TorchUnshardedData(Rule):
    """A shuffling `DataLoader` without a sampler in a script that trains with DDP."""

    words = ("DistributedDataParallel",)
    text = (
        "a DataLoader that shuffles, without a DistributedSampler, in a script with DDP: every "
        "rank may go through the whole dataset, and an epoch takes as many times longer as there "
        "are ranks"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if not any(module.calls(DDP)) or any(word in module.source for word in _SHARED):
            return
        if not backward_loops(module):
            return
        for call in module.calls(LOADER):
            shuffles = module.constant(argument(call, "shuffle", 2)) is True
            sampled = argument(call, "sampler", 3) or argument(call, "batch_sampler", 4)
            ranked = "rank" in ast.unparse(call)
            if shuffles and not sampled and not ranked and not starred(call):
                yield call, self.text


_SWITCHES = {
    "NCCL_P2P_DISABLE": "NVLink and PCIe",
    "NCCL_SHM_DISABLE": "shared memory",
    "NCCL_IB_DISABLE": "InfiniBand",
}


class NcclSettings(Rule):
    """`NCCL_P2P_DISABLE`, `NCCL_SHM_DISABLE` or `NCCL_IB_DISABLE` set to 1, or a traced NCCL."""

    words = ("NCCL_",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for node, name, value in variables(module):
            if name in _SWITCHES and value == "1":
                yield (
                    node,
                    (
                        f"{name} is 1: NCCL may not use {_SWITCHES[name]}, and the exchange of "
                        "gradients may be slower by what is left"
                    ),
                )
            elif name == "NCCL_DEBUG" and value.upper() == "TRACE":
                yield (
                    node,
                    "NCCL_DEBUG is TRACE: NCCL writes lines for every call, which may slow it",
                )


_SLOW_WAYS = {"NCCL_NET": "socket", "FI_PROVIDER": "tcp", "NCCL_P2P_LEVEL": "loc"}


class NcclTransport(Rule):
    """`NCCL_NET=Socket`, `FI_PROVIDER=tcp` or `NCCL_P2P_LEVEL=LOC` set by the script."""

    words = ("NCCL_", "FI_PROVIDER")
    text = (
        "{} is {}: NCCL is kept from quicker ways between hosts or GPUs where there are any, and "
        "the exchange of gradients may take longer"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for node, name, value in variables(module):
            if _SLOW_WAYS.get(name) == value.lower():
                yield node, self.text.format(name, value)


class TfCrossDeviceOps(Rule):
    """A strategy with `ReductionToOneDevice` or `HierarchicalCopyAllReduce`."""

    words = ("cross_device_ops",)
    text = (
        "the strategy exchanges gradients by {}, which does not use the links between GPUs as NCCL "
        "does and may be slower"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("tensorflow.distribute.MirroredStrategy"):
            for keyword in call.keywords:
                if keyword.arg != "cross_device_ops" or module.conditional(call):
                    continue
                made = module.value(keyword.value)
                name = module.name(made.func) if isinstance(made, ast.Call) else None
                if name in _SLOW_OPS:
                    short = (name or "").rpartition(".")[2]
                    yield call, self.text.format(short)


_SLOW_OPS = (
    "tensorflow.distribute.ReductionToOneDevice",
    "tensorflow.distribute.HierarchicalCopyAllReduce",
)


class TfStrategyDataset(Rule):
    """`strategy.run` with a batch of a dataset that is not distributed."""

    words = (".run(",)
    text = (
        "run gets a batch of a dataset that is not distributed: every replica may compute all of "
        "it; experimental_distribute_dataset gives each its part"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("run"):
            given = argument(call, "args", 1)
            loops = module.loops(call)
            if given is None or not loops or not isinstance(loops[0], ast.For):
                continue
            if not names_in(given) & targets(loops[0]):
                continue
            if any(is_dataset(module, each) for each in iterated(loops[0])):
                yield call, self.text


STRATEGIES = (
    "tensorflow.distribute.MirroredStrategy",
    "tensorflow.distribute.MultiWorkerMirroredStrategy",
    "tensorflow.distribute.experimental.MultiWorkerMirroredStrategy",
)


class TfStrategyScope(Rule):
    """A strategy of `tf.distribute` whose `scope()` is never entered, and a `fit`."""

    words = ("MirroredStrategy",)
    text = (
        "the scope of {} is never entered: a model that is built outside it trains on one device, "
        "and the others may do nothing"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        made = list(module.calls(*STRATEGIES))
        entered = any(module.methods("scope", "run", "experimental_run_v2"))
        if not made or entered or not fits(module) or not any(module.methods("compile")):
            return
        for call in made:
            statement = module.parent(call)
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            target = statement.targets[0]
            if isinstance(target, ast.Name) and not _leaves(module, target.id):
                yield call, self.text.format(target.id)


def _leaves(module: Module, name: str) -> bool:
    """Whether the object is used otherwise than to count replicas: others may enter it."""
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            above = module.parent(node)
            if not isinstance(above, ast.Attribute) or above.attr != "num_replicas_in_sync":
                return True
    return False
