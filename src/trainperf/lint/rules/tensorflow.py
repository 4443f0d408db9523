"""Training with TensorFlow and Keras: the input, the step, and several devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.lint.rule import Place, rule
from trainperf.source.arguments import argument, starred
from trainperf.source.bodies import (
    PYTHON_OPS,
    function_of,
    looping,
    method_of,
    python_op,
    reading,
)
from trainperf.source.effects import drawing
from trainperf.source.loops import fits, iterated, tapes, targets
from trainperf.source.module import UNKNOWN, Module, inside
from trainperf.source.scopes import FUNCTIONS, Binding, Function, Loop
from trainperf.source.statements import last_name, names_in

# ------------------------------------------------------------------------------- input

_BASES = {"keras.utils.PyDataset", "keras.utils.Sequence", "keras.utils.data_utils.Sequence"}
_GENERATOR = "keras.preprocessing.image.ImageDataGenerator"


@rule(".fit( flow_from_", "one thread reads, in turns with the training, which may wait for it")
def keras_pydataset_workers(module: Module) -> Iterator[Place]:
    """A `PyDataset` or image generator without `workers` that reads files, given to `fit`."""
    for fit in fits(module):
        given = argument(fit, "x", 0)
        made = module.value(given) if given is not None else None
        if not isinstance(made, ast.Call) or starred(fit) or starred(made):
            continue
        home, owner = module.defined(made.func) or (module, None)
        get = method_of(owner, "__getitem__")
        if isinstance(made.func, ast.Attribute) and made.func.attr.startswith("flow_from_"):
            maker = module.value(made.func.value)
            generator = isinstance(maker, ast.Call) and module.name(maker.func) == _GENERATOR
            work = f"{made.func.attr} decodes images" if generator else None
        elif isinstance(owner, ast.ClassDef) and get is not None and home.bases(owner) & _BASES:
            read = reading(home, get)
            work = f"{owner.name} calls {read}" if read else None
        else:
            continue
        if work and not (_sets_workers(module) or _sets_workers(home)):
            yield Place(made, f"{work} for each batch and has no workers")


def _sets_workers(module: Module) -> bool:
    attributes = (node.attr for node in module.nodes if isinstance(node, ast.Attribute))
    keywords = (node.arg for node in module.nodes if isinstance(node, ast.keyword))
    return "workers" in attributes or any(name in ("workers", None) for name in keywords)


@rule("from_generator", "one core makes it, and the model may wait; a map over file names uses all")
def tf_generator(module: Module) -> Iterator[Place]:
    """`Dataset.from_generator` whose generator reads a file, or loops, for each element."""
    for call in module.calls("tensorflow.data.Dataset.from_generator"):
        function = function_of(module, argument(call, "generator", 0))
        if isinstance(function, ast.Lambda) and isinstance(function.body, ast.Call):
            function = function_of(module, function.body.func)
        nodes = ast.walk(function) if function is not None else ()
        bodies = [ast.Module(node.body, []) for node in nodes if isinstance(node, ast.For)]
        works = [reading(module, body) or looping(module, body) for body in bodies]
        for work in [work for work in works if work][:1]:
            yield Place(call, f"from_generator, whose generator calls {work} for each element")


def _mapped(module: Module) -> Iterator[tuple[ast.Call, Function | ast.Lambda]]:
    """Yield the calls of `Dataset.map`, each with its function."""
    for call in module.methods("map"):
        function = function_of(module, call.args[0]) if call.args else None
        if function is not None and not starred(call) and is_dataset(module, call):
            yield call, function


@rule(
    "random",
    "TensorFlow does not parallelise a random function by itself, so the pipeline may use one core "
    "only; `num_parallel_calls=tf.data.AUTOTUNE` lets it use more",
)
def tf_map_parallel(module: Module) -> Iterator[Place]:
    """`Dataset.map` without `num_parallel_calls`, whose function draws random numbers.

    TensorFlow 2.13 and later parallelise every other `map` by themselves.
    """
    for call, function in _mapped(module):
        parallel = argument(call, "num_parallel_calls", 1)
        if parallel is not None and module.constant(parallel) not in (None, 1):
            continue
        drawn = drawing(module, function)
        if drawn and python_op(module, function) is None:
            yield Place(call, f"map without num_parallel_calls, whose function calls {drawn}")


@rule(
    "py_func numpy_function",
    "Python runs one call at a time, which may hold up the rest; ops do not",
)
def tf_py_function(module: Module) -> Iterator[Place]:
    """`tf.py_function` or `tf.numpy_function` in a function given to `Dataset.map`."""
    mapped = _mapped(module) if any(module.calls(*PYTHON_OPS)) else ()
    found = (python_op(module, function) for _, function in mapped)
    for back in dict.fromkeys(call for call in found if call is not None):
        yield Place(back, f"{module.name(back.func)} in a function given to map")


# ---------------------------------------------------------------------------- the step

_HOOKS = {"on_train_batch_end", "on_batch_end", "on_train_batch_begin", "on_batch_begin"}
_WRITES = {"print", "open", "json.dump", "pickle.dump", "matplotlib.pyplot.plot",
           "matplotlib.pyplot.savefig"}  # fmt: skip


@rule("batch_end batch_begin", "the model may wait for it; every 100th batch may do")
def keras_callback_per_batch(module: Module) -> Iterator[Place]:
    """A callback that saves, plots or prints after every batch."""
    for owner in module.classes:
        if "keras.callbacks.Callback" not in module.bases(owner):
            continue
        for hook in (method for name in _HOOKS if (method := method_of(owner, name))):
            calls = [node for node in inside(hook) if isinstance(node, ast.Call)]
            calls = [call for call in calls if not module.conditional(call)]
            names = [module.name(call.func) or last_name(call.func) for call in calls]
            writes = [name for name in names if name in _WRITES or name.startswith("save")]
            if writes and not any(isinstance(node, ast.Return) for node in inside(hook)):
                yield Place(hook, f"{owner.name}.{hook.name} calls {writes[0]} for every batch")


@rule(
    "GradientTape",
    "Python then starts every operation one by one, which may take longer than the arithmetic; "
    "`@tf.function` traces the step once",
)
def tf_function(module: Module) -> Iterator[Place]:
    """A `tf.GradientTape` step that a loop runs without `tf.function`."""
    updates = {module.function(call) for call in module.methods("apply_gradients", "apply")}
    calls = [node for node in module.nodes if isinstance(node, ast.Call) and module.loops(node)]
    looped = {function_of(module, call.func) for call in calls}
    seen: dict[ast.AST, str] = {}
    for tape in tapes(module):
        function = module.function(tape)
        step = function if isinstance(function, FUNCTIONS) else None
        if function not in updates or (step is not None and _compiled(module, step)):
            continue
        if module.loops(tape):
            seen[tape] = "a loop runs this GradientTape step"
        elif step is not None and step in looped:
            seen[step] = f"a loop calls {step.name}, with a GradientTape,"
    for node, runs in seen.items():
        yield Place(node, f"{runs} without tf.function")


def _compiled(module: Module, function: Function) -> bool:
    """Whether a decorator, a caller's, or another use than a call may compile a function."""
    around = [each for each in module.around(function) if isinstance(each, FUNCTIONS)]
    if any(each.decorator_list for each in (function, *around)):
        return True
    if isinstance(module.parent(function), ast.ClassDef) and function.name == "train_step":
        return True
    for node in module.nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or last_name(node) != function.name:
            continue
        above, caller = module.parent(node), module.function(node)
        if not (isinstance(above, ast.Call) and above.func is node):
            return True
        if caller is not None and caller is not function and _decorated(caller):
            return True
    return False


def _decorated(function: Function | ast.Lambda) -> bool:
    return isinstance(function, ast.Lambda) or bool(function.decorator_list)


@rule("tf.function", "each new value may be traced anew, at the cost of many steps; pass a tensor")
def tf_retracing(module: Module) -> Iterator[Place]:
    """A `tf.function` called with a Python number that changes in the loop."""
    for call in (node for node in module.nodes if isinstance(node, ast.Call)):
        loops, caller = module.loops(call), module.function(call)
        function = function_of(module, call.func) if loops else None
        if not isinstance(function, FUNCTIONS) or (caller is not None and _decorated(caller)):
            continue
        signed = any("input_signature" in ast.unparse(each) for each in function.decorator_list)
        if signed or "tensorflow.function" not in module.decorators(function):
            continue
        counters = {name for loop in loops for name in _counters(module, loop)}
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        for value in [each for each in given if _is_number(module, each, counters)][:1]:
            number = f"{ast.unparse(value)}, a Python number that changes in the loop"
            yield Place(call, f"{function.name} is a tf.function and gets {number}")


_NUMERIC = {"min", "max", "float", "int", "abs", "round"}
_ARITHMETIC = (ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.Constant, ast.Name,
               ast.Call, ast.expr_context)  # fmt: skip


def _is_number(module: Module, node: ast.expr, counters: set[str]) -> bool:
    """Whether an expression is arithmetic on a counter, and nothing but Python numbers."""
    nodes = list(ast.walk(node))
    names = [each for each in nodes if isinstance(each, ast.Name)]
    variables = {each.id for each in names if module.constant(each) is UNKNOWN} - _NUMERIC
    functions = {last_name(each.func) for each in nodes if isinstance(each, ast.Call)}
    plain = functions <= _NUMERIC and all(isinstance(each, _ARITHMETIC) for each in nodes)
    return plain and bool(variables) and variables <= counters


def _counters(module: Module, loop: Loop) -> Iterator[str]:
    """Yield the names that a loop counts with, by its head or by `n += 1`."""
    for node in inside(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            others = [each for each in module.bindings(node.target) or () if each.kind != "other"]
            starts = [each.value for each in others if isinstance(each.value, ast.Constant)]
            if isinstance(module.constant(node.value), int) and len(starts) == len(others) > 0:
                yield node.target.id
    if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call):
        name, target = module.name(loop.iter.func), loop.target
        if name == "enumerate" and isinstance(target, ast.Tuple):
            target = target.elts[0]
        if name in ("range", "enumerate") and isinstance(target, ast.Name):
            yield target.id


# ---------------------------------------------------------------------- several devices


@rule(".run(", "every replica may compute all of it; experimental_distribute_dataset shares it")
def tf_strategy_dataset(module: Module) -> Iterator[Place]:
    """`strategy.run` with a batch of a dataset that is not distributed."""
    for call in module.methods("run"):
        given, loops = argument(call, "args", 1), module.loops(call)
        if given is None or not loops or not names_in(given) & targets(loops[0]):
            continue
        if any(is_dataset(module, each) for each in iterated(loops[0])):
            yield Place(call, "run gets a batch of a dataset that is not distributed")


# ------------------------------------- chains of `tf.data` stages, followed through names

_CLASS = "tensorflow.data.Dataset"
_MADE = ("from_tensor_slices", "from_tensors", "from_generator", "list_files", "range", "zip",
         "sample_from_datasets", "choose_from_datasets", "random", "load")  # fmt: skip
_READ = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset",
         "experimental.CsvDataset", "experimental.make_csv_dataset")  # fmt: skip
_KERAS = ("utils.image", "utils.text", "utils.audio", "preprocessing.image", "preprocessing.text")
_SOURCES = {
    *(f"{_CLASS}.{name}" for name in _MADE),
    *(f"tensorflow.data.{name}" for name in _READ),
    *(f"keras.{name}_dataset_from_directory" for name in _KERAS),
    "keras.utils.timeseries_dataset_from_array",
}
_STAGES = {
    "apply", "batch", "bucket_by_sequence_length", "cache", "concatenate", "enumerate", "filter",
    "flat_map", "group_by_window", "ignore_errors", "interleave", "map", "padded_batch",
    "prefetch", "ragged_batch", "rebatch", "rejection_resample", "repeat", "scan", "shard",
    "shuffle", "skip", "snapshot", "take", "take_while", "unbatch", "unique", "window",
    "with_options",
}  # fmt: skip
_MOST = 200
"""Nodes that are looked at for one answer; beyond them it is not certain."""


def is_dataset(module: Module, node: ast.expr | None) -> bool:
    """Tell whether `node` is certainly a `tf.data.Dataset`: all that it may be is one.

    Each node is looked at once: a notebook binds one name to itself in cell after cell.
    """
    left, seen, found = [node], set[ast.AST](), False
    while left:
        node = left.pop()
        if node is None or len(seen) > _MOST:
            return False
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, ast.Call):
            local = module.definition(node.func)
            if module.name(node.func) in _SOURCES or _is_loaded(module, node):
                found = True
            elif isinstance(node.func, ast.Attribute) and node.func.attr in _STAGES:
                left.append(node.func.value)
            elif isinstance(local, FUNCTIONS):
                returns = [each.value for each in inside(local) if isinstance(each, ast.Return)]
                left += (returns or [None]) if local not in seen else []
                seen.add(local)
            else:
                return False
            continue
        for each in module.bindings(node) or [Binding("other", node)]:
            if each.kind == "parameter" and each.value and module.name(each.value) == _CLASS:
                found = True
            else:
                left.append(each.value if each.kind == "value" else None)
    return found


def _is_loaded(module: Module, call: ast.Call) -> bool:
    """Whether `tfds.load` gives one dataset, and nothing with it."""
    one = isinstance(module.constant(argument(call, "split", 1)), str)
    whole = one and argument(call, "with_info") is None
    return whole and module.name(call.func) == "tensorflow_datasets.load"
