"""What is looked for: the opposite of what the rows of fixes set, and a few common mistakes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from trainperf.fixes import all_fixes, by_id
from trainperf.fixes.rows import SetArgument
from trainperf.source.arguments import argument, keyword, starred
from trainperf.source.bodies import calls_in
from trainperf.source.module import UNKNOWN, Module, inside
from trainperf.source.scopes import LOOPS
from trainperf.source.statements import last_name, names_in, walk

MEASURE = "`trainperf diagnose` measures it."

Place = tuple[ast.Assign | ast.Call, str]
Check = Callable[[Module], Iterator[Place]]


@dataclass(frozen=True)
class Remark:
    """One place of a file and what it suggests. Lines and columns count from 1.

    Columns count characters. `last_line` is the end of the place: an inline comment on
    any line between turns the remark off. `cell` is the number of a notebook's cell, in which
    lines count; 0 in other files.
    """

    id: str
    line: int
    column: int
    last_line: int
    text: str
    path: Path = Path()
    cell: int = 0


@dataclass(frozen=True)
class Rule:
    """A check of source alone for one fix, whose id it has; several may be for the same.

    `places` yields what is seen, and what that is.
    """

    id: str
    places: Check

    def remarks(self, module: Module) -> Iterator[Remark]:
        """Yield what the rule has to say of a file."""
        for node, seen in self.places(module):
            before = module.line(node.lineno).encode()[: node.col_offset]
            column = len(before.decode(errors="replace")) + 1
            text = f"{seen} may be slow. {by_id()[self.id].summary} {MEASURE}"
            yield Remark(self.id, node.lineno, column, node.end_lineno or node.lineno, text)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule, in order of their ids, of which some have several."""
    found = [*_CALLS, *(Rule(places.__name__, places) for places in _CHECKS)]
    for fix in all_fixes():
        if isinstance(fix.edit, SetArgument) and fix.edit.value in ("True", "False"):
            found.append(Rule(fix.id, partial(_undone, fix.edit)))
    return tuple(sorted(found, key=lambda rule: rule.id))


def _undone(row: SetArgument, module: Module) -> Iterator[Place]:
    """The opposite of what a row sets."""
    for call in (node for node in module.nodes if isinstance(node, ast.Call)):
        given, needed = keyword(call, row.name), keyword(call, row.needs)
        value = module.constant(given.value) if given else UNKNOWN
        able = not row.needs or (needed is not None and module.constant(needed.value) != 0)
        if value is (row.value == "False") and able and not module.conditional(call):
            yield call, f"{last_name(call.func)}({row.name}={value})"


def _call(
    id_: str,
    *names: str,
    given: str = "",
    position: int | None = None,
    slow: Callable[[object], bool] = bool,
) -> Rule:
    """Calls of what has these dotted names; those `given` an argument whose value is `slow`."""

    def places(module: Module) -> Iterator[Place]:
        for call in module.calls(*names):
            value = argument(call, given, position) if given else None
            if not given:
                yield call, module.name(call.func) or ""
            elif value is not None and not module.conditional(call) and slow(_value(module, value)):
                yield call, f"{last_name(call.func)}({given}={ast.unparse(value)})"

    return Rule(id_, places)


def _value(module: Module, given: ast.expr) -> object:
    """Return the constant that an argument is, or the dotted name of what it calls."""
    node = module.value(given)
    return module.name(node.func) if isinstance(node, ast.Call) else module.constant(node)


LOADER = "torch.utils.data.DataLoader"
_LAYERS = ("keras.layers.LSTM", "keras.layers.GRU")
_CALLS = (
    _call("keras_callback_per_batch", "keras.callbacks.ModelCheckpoint", given="save_freq",
          slow=range(1, 11).__contains__),
    _call("keras_callback_per_batch", "keras.callbacks.TensorBoard", given="update_freq",
          slow=("batch", *range(1, 11)).__contains__),
    _call("rnn_cudnn", *_LAYERS, given="activation", position=1,
          slow=lambda name: name not in ("tanh", UNKNOWN)),
    _call("rnn_cudnn", *_LAYERS, given="recurrent_dropout",
          slow=lambda rate: rate not in (0, UNKNOWN)),
    _call("tf_generator", "tensorflow.data.Dataset.from_generator"),
    _call("tf_py_function", "tensorflow.py_function", "tensorflow.numpy_function"),
    _call("torch_data_parallel", "torch.nn.DataParallel"),
    _call("torch_debug_modes", "torch.autograd.set_detect_anomaly", given="mode", position=0,
          slow=lambda mode: mode is True),
    _call("torch_debug_modes", "torch.autograd.detect_anomaly"),
    _call("torch_too_many_workers", LOADER, given="num_workers", position=5,
          slow=("os.cpu_count", "multiprocessing.cpu_count").__contains__),
)  # fmt: skip


# ------------------------------------------------------------ what one call does not show

_READS = {"File", "imread", "load", "loadtxt", "open", "read_csv", "read_image", "read_parquet"}


def torch_workers(module: Module) -> Iterator[Place]:
    """A `DataLoader` without workers, whose dataset reads a file or decodes an image."""
    for call in module.calls(LOADER):
        workers, dataset = argument(call, "num_workers", 5), argument(call, "dataset", 0)
        made = module.value(dataset) if dataset is not None else None
        without = workers is None or module.constant(workers) == 0
        if without and not starred(call) and isinstance(made, ast.Call):
            _, owner = module.defined(made.func) or (module, None)
            items = (
                method
                for method in getattr(owner, "body", ())
                if isinstance(method, ast.FunctionDef) and method.name == "__getitem__"
            )
            reads = (last_name(c.func) in _READS for item in items for c in calls_in(module, item))
            if any(reads) or (module.name(made.func) or "").startswith("torchvision.datasets."):
                yield call, "a DataLoader without workers that reads files"


def torch_launch_blocking(module: Module) -> Iterator[Place]:
    """`os.environ["CUDA_LAUNCH_BLOCKING"] = "1"`."""
    nodes = module.nodes if "CUDA_LAUNCH_BLOCKING" in module.source else ()
    for node in (node for node in nodes if isinstance(node, ast.Assign)):
        on = ast.unparse(node).endswith("environ['CUDA_LAUNCH_BLOCKING'] = '1'")
        if on and not module.conditional(node):
            yield node, "CUDA_LAUNCH_BLOCKING=1"


def torch_step_logging(module: Module) -> Iterator[Place]:
    """The loss of a training loop read by `.item()` or `float` in every step."""
    for loop in (node for node in module.nodes if isinstance(node, LOOPS)):
        nodes = (node for node in inside(loop) if isinstance(node, ast.Call))
        calls = [call for call in nodes if module.loops(call)[:1] == [loop]]
        passes = [call for call in calls if last_name(call.func) == "backward"]
        losses = {name for call in passes for name in names_in(call)}
        reads = {form for name in losses for form in (f"{name}.item()", f"float({name})")}
        found = [call for call in calls if ast.unparse(call) in reads]
        each_time = [call for call in found if not module.conditional(call, loop)]
        if each_time and any(last_name(call.func) == "step" for call in calls):
            yield each_time[0], f"{ast.unparse(each_time[0])} in every step"


def torch_evaluation_grad(module: Module) -> Iterator[Place]:
    """A function that calls `model.eval()` and the model, in a file that never says `no_grad`."""
    modes = ("no_grad", "inference_mode", "grad_enabled", "autograd", "requires_grad")
    if "torch" not in module.source or any(mode in module.source for mode in modes):
        return
    for call in module.methods("eval"):
        function = module.function(call)
        text = ast.unparse(function) if function is not None else "backward"
        model = ast.unparse(call.func).removesuffix(".eval")
        if not call.args and f"{model}(" in text and "backward" not in text:
            yield call, f"{model} evaluated without torch.no_grad()"


def tf_function(module: Module) -> Iterator[Place]:
    """A `tf.GradientTape` step in a file without `tf.function`."""
    tapes = list(module.calls("tensorflow.GradientTape")) * (".function" not in module.source)
    for step, tape in {module.function(tape): tape for tape in reversed(tapes)}.items():
        body = [step] if step is not None else module.loops(tape)[:1]
        calls = {last_name(node.func) for node in walk(body) if isinstance(node, ast.Call)}
        method = step is not None and isinstance(module.parent(step), ast.ClassDef)
        compiled = method and getattr(step, "name", "") == "train_step"  # by Keras
        if not compiled and {"apply_gradients", "apply"} & calls:
            yield tape, "a GradientTape step without tf.function"


_CHECKS = (
    tf_function,
    torch_evaluation_grad,
    torch_launch_blocking,
    torch_step_logging,
    torch_workers,
)
