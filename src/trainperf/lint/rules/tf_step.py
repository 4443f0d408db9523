"""Training steps of TensorFlow and Keras, from source alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.lint.rule import Rule, literal
from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of
from trainperf.source.loops import fits, iterated, tapes
from trainperf.source.module import UNKNOWN, Module, inside
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import variables

FEW = 10
"""Batches between two writes below which a callback is said to work in nearly each."""
_HOOKS = {"on_train_batch_end", "on_batch_end", "on_train_batch_begin", "on_batch_begin"}
_WRITES = {"print", "open", "json.dump", "pickle.dump", "matplotlib.pyplot.plot",
           "matplotlib.pyplot.savefig"}  # fmt: skip
_METHODS = {"save", "save_weights", "savefig"}


class KerasCallbackPerBatch(Rule):
    """A callback that saves, logs or prints after every batch or every few."""

    words = ("save_freq", "update_freq", "batch_end", "batch_begin")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("keras.callbacks.ModelCheckpoint"):
            batches = module.constant(argument(call, "save_freq"))
            if _few(batches) and not module.conditional(call):
                yield (
                    call,
                    (
                        f"ModelCheckpoint(save_freq={batches}) writes a checkpoint every "
                        f"{_batches(batches)}, and the model waits for it: this may take longer "
                        "than the training"
                    ),
                )
        for call in module.calls("keras.callbacks.TensorBoard"):
            often = module.constant(argument(call, "update_freq"))
            if (often == "batch" or _few(often)) and not module.conditional(call):
                yield (
                    call,
                    (
                        f"TensorBoard(update_freq={often!r}) writes after "
                        f"{'each batch' if often == 'batch' else 'every ' + _batches(often)}, "
                        "which may hold the training up"
                    ),
                )
        for owner in module.classes:
            if "keras.callbacks.Callback" in module.bases(owner):
                yield from self._own(module, owner)

    def _own(self, module: Module, owner: ast.ClassDef) -> Iterator[tuple[ast.AST, str]]:
        for method in owner.body:
            if not isinstance(method, ast.FunctionDef) or method.name not in _HOOKS:
                continue
            if any(isinstance(each, ast.Return) for each in inside(method)):
                continue
            for node in inside(method):
                name = _writes(module, node) if isinstance(node, ast.Call) else None
                if name is not None and not module.conditional(node):
                    yield (
                        method,
                        (
                            f"{owner.name}.{method.name} calls {name} for every batch, and the "
                            "model waits for it; every 100th batch may do"
                        ),
                    )
                    break


def _few(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= FEW


def _batches(number: int) -> str:
    return "batch" if number == 1 else f"{number} batches"


def _writes(module: Module, call: ast.Call) -> str | None:
    name = module.name(call.func)
    if name in _WRITES:
        return name
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
        return call.func.attr
    return None


_GLOBAL = (
    "tensorflow.config.run_functions_eagerly",
    "tensorflow.config.experimental_run_functions_eagerly",
)


class KerasRunEagerly(Rule):
    """`compile(run_eagerly=True)`, `model.run_eagerly = True` or `run_functions_eagerly(True)`."""

    words = ("run_eagerly", "functions_eagerly")
    text = (
        "{}: Python then runs the training step operation by operation, which may take several "
        "times as long as the compiled step"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if "keras" in module.source:
            for call in module.methods("compile"):
                eager = argument(call, "run_eagerly")
                if module.constant(eager) is True and not module.conditional(call):
                    yield call, self.text.format("compile(run_eagerly=True)")
            for node in module.nodes:
                if isinstance(node, ast.Assign) and _sets(module, node):
                    yield node, self.text.format("run_eagerly = True")
        switches = list(module.calls(*_GLOBAL))
        given = [module.constant(argument(call, "run_eagerly", 0)) for call in switches]
        if all(each is True for each in given):
            for call in switches:
                if not module.conditional(call):
                    yield call, self.text.format("run_functions_eagerly(True)")

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        if isinstance(node, ast.Assign):
            return literal(node.value, "False")
        if not isinstance(node, ast.Call):
            return None
        return literal(argument(node, "run_eagerly") or next(iter(node.args), None), "False")


def _sets(module: Module, node: ast.Assign) -> bool:
    target = node.targets[0]
    return (
        isinstance(target, ast.Attribute)
        and target.attr == "run_eagerly"
        and not (isinstance(target.value, ast.Name) and target.value.id == "self")
        and module.constant(node.value) is True
        and not module.conditional(node)
    )


class RnnCellWrapped(Rule):
    """`RNN(LSTMCell(…))` or `RNN(GRUCell(…))` of Keras."""

    words = ("LSTMCell", "GRUCell")
    text = (
        "RNN({}) runs the cell in a loop over the time steps; on a GPU the layer {} computes the "
        "same with cuDNN and may be many times as fast"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("keras.layers.RNN"):
            given = argument(call, "cell", 0)
            cell = module.value(given) if given is not None else None
            name = module.name(cell.func) if isinstance(cell, ast.Call) else None
            if name in ("keras.layers.LSTMCell", "keras.layers.GRUCell"):
                short = (name or "").rpartition(".")[2]
                yield call, self.text.format(short, short.removesuffix("Cell"))


class RnnCudnn(Rule):
    """`LSTM` or `GRU` of Keras with an argument that cuDNN does not support."""

    words = ("LSTM", "GRU")
    text = (
        "{}: cuDNN cannot be used, so on a GPU the layer runs as a loop over the time steps, which "
        "may take many times as long"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("keras.layers.LSTM", "keras.layers.GRU"):
            if module.constant(argument(call, "use_cudnn")) is False:
                continue
            wrong = [text for each in _WANTED if (text := _wrong(module, call, *each))]
            if wrong:
                yield call, self.text.format(", ".join(wrong))


_WANTED = (
    ("activation", 1, ("tanh",)),
    ("recurrent_activation", 2, ("sigmoid",)),
    ("use_bias", 3, (True,)),
    ("recurrent_dropout", None, (0, 0.0)),
    ("reset_after", None, (True,)),
)


def _wrong(
    module: Module, call: ast.Call, name: str, position: int | None, wanted: tuple[object, ...]
) -> str | None:
    value = module.constant(argument(call, name, position))
    if value is UNKNOWN or value in wanted:
        return None
    return f"{name}={value!r}"


class RnnUnroll(Rule):
    """`LSTM`, `GRU`, `SimpleRNN` or `RNN` of Keras with `unroll=True`."""

    words = ("unroll",)
    text = (
        "unroll=True puts a copy of the cell into the graph for each time step: long sequences may "
        "take minutes to compile, and cuDNN cannot be used"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(
            *(f"keras.layers.{n}" for n in ("LSTM", "GRU", "SimpleRNN", "RNN"))
        ):
            if module.constant(argument(call, "unroll")) is True:
                yield call, self.text

    def replaced(self, module: Module, node: ast.AST) -> tuple[ast.AST, str] | None:
        return literal(argument(node, "unroll"), "False") if isinstance(node, ast.Call) else None


class TfFunction(Rule):
    """A `tf.GradientTape` step that a loop runs without `tf.function`."""

    words = ("GradientTape",)
    text = (
        "{} without tf.function: Python then starts every operation one by one, which may take "
        "longer than the arithmetic; `@tf.function` traces the step once"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        updates = list(module.methods("apply_gradients", "apply"))
        seen = set()
        for tape in tapes(module):
            function = module.function(tape)
            if isinstance(function, ast.Lambda) or _compiled(module, function):
                continue
            if not any(module.function(each) is function for each in updates):
                continue
            runner = None if function is None else _runner(module, function)
            if function is not None and runner is not None:
                inner = _called_in_loop(module, runner)
                if inner is not None and not _compiled(module, runner) and runner not in seen:
                    seen.add(runner)
                    calls = f"a loop calls {runner.name}, and that {function.name}, with a Gradient"
                    yield runner, self.text.format(f"{calls}Tape,")
                continue
            inner = tape if function is None else _called_in_loop(module, function)
            if module.loops(tape):
                yield tape, self.text.format("a loop runs this GradientTape step")
            elif inner is not None and function is not None and function not in seen:
                seen.add(function)
                yield (
                    function,
                    self.text.format(f"a loop calls {function.name}, with a GradientTape,"),
                )


def _compiled(module: Module, function: Function | None) -> bool:
    if function is None:
        return False
    around = (function, *module.around(function))
    if any(isinstance(f, FUNCTIONS) and f.decorator_list for f in around):
        return True
    if isinstance(module.parent(function), ast.ClassDef) and function.name == "train_step":
        return True
    for node in module.nodes:
        mentioned = (isinstance(node, ast.Name) and node.id == function.name) or (
            isinstance(node, ast.Attribute) and node.attr == function.name
        )
        above = module.parent(node)
        if mentioned and not (isinstance(above, ast.Call) and _called(above) is node):
            return True
        caller = module.function(node) if mentioned else None
        if caller is not None and caller is not function and _decorated(caller):
            return True
    return False


def _called(call: ast.Call) -> ast.expr:
    """Return the function that a call calls: of `strategy.run(step, …)` the step."""
    run = isinstance(call.func, ast.Attribute) and call.func.attr == "run" and call.args
    return call.args[0] if run else call.func


def _runner(module: Module, function: Function) -> Function | None:
    """Return the function that lets a strategy run `function`, if one does outside a loop."""
    for call in module.methods("run"):
        target = _called(call)
        if isinstance(target, ast.Name) and module.definition(target) is function:
            around = module.function(call)
            return around if isinstance(around, FUNCTIONS) and not module.loops(call) else None
    return None


def _decorated(function: Function | ast.Lambda) -> bool:
    return isinstance(function, ast.Lambda) or bool(function.decorator_list)


def _called_in_loop(module: Module, function: Function) -> ast.AST | None:
    for call in module.methods(function.name):
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            own = call.func.value.id == "self"
            if own and module.loops(call) and isinstance(module.parent(function), ast.ClassDef):
                return call
    for node in module.nodes:
        if (
            isinstance(node, ast.Call)
            and module.definition(_called(node)) is function
            and module.loops(node)
        ):
            return node
    return None


class TfRetracing(Rule):
    """A `tf.function` called with a Python number of the loop, or made anew in each turn."""

    words = ("tf.function", "tensorflow.function", "import function")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        yield from self._numbers(module)
        yield from self._made_in_loops(module)

    def _numbers(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for function in module.functions:
            if "tensorflow.function" not in module.decorators(function) or _signed(function):
                continue
            for call in _calls_of(module, function):
                caller = module.function(call)
                if isinstance(caller, FUNCTIONS) and caller.decorator_list:
                    continue
                counters = {name for each in module.loops(call) for name in _counters(module, each)}
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                for each in given:
                    if _is_number(module, each, counters):
                        yield (
                            call,
                            (
                                f"{function.name} is a tf.function and gets {ast.unparse(each)}, a "
                                "Python number that changes in the loop: every new value may be "
                                "traced anew, at the cost of many steps; pass a tensor"
                            ),
                        )
                        break

    def _made_in_loops(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for made in module.calls("tensorflow.function"):
            statement = module.parent(made)
            loops = module.loops(made)
            if not loops or not isinstance(statement, ast.Assign) or _literal(loops[0]):
                continue
            names = {each.id for each in statement.targets if isinstance(each, ast.Name)}
            for node in module.nodes:
                called = node.func if isinstance(node, ast.Call) else None
                used = isinstance(called, ast.Name) and called.id in names
                if used and module.loops(node)[:1] == loops[:1]:
                    yield (
                        made,
                        (
                            "tf.function in a loop makes a new function in each turn: its first "
                            "call may be traced anew each time; make it once, before the loop"
                        ),
                    )
                    break


def _signed(function: Function) -> bool:
    return any(
        isinstance(each, ast.Call) and any(k.arg == "input_signature" for k in each.keywords)
        for each in function.decorator_list
    )


def _calls_of(module: Module, function: Function) -> Iterator[ast.Call]:
    for node in module.nodes:
        if isinstance(node, ast.Call) and function_of(module, node.func) is function:
            yield node


def _is_number(module: Module, node: ast.expr, counters: set[str]) -> bool:
    """Whether an expression is arithmetic on a counter, and nothing but Python numbers."""
    named = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            if module.name(each.func) not in _NUMERIC or each.keywords:
                return False
        elif isinstance(each, ast.Name):
            named.add(each.id)
            function = module.name(each) in _NUMERIC
            number = isinstance(module.constant(each), int | float)
            if not (function or number or each.id in counters):
                return False
        elif not isinstance(each, _ARITHMETIC):
            return False
    return bool(named & counters)


_NUMERIC = {"min", "max", "float", "int", "abs", "round"}
_ARITHMETIC = (ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.Constant, ast.expr_context)


def _counters(module: Module, loop: ast.AST) -> Iterator[str]:
    for node in inside(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            others = [each for each in module.bindings(node.target) or () if each.kind != "other"]
            starts = [each.value for each in others if isinstance(each.value, ast.Constant)]
            step = module.constant(node.value)
            if isinstance(step, int) and others and len(starts) == len(others):
                yield node.target.id
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return
    name = module.name(loop.iter.func)
    if name == "range" and isinstance(loop.target, ast.Name):
        yield loop.target.id
    if name == "enumerate" and isinstance(loop.target, ast.Tuple):
        first = loop.target.elts[0]
        if isinstance(first, ast.Name):
            yield first.id


def _literal(loop: ast.AST) -> bool:
    return isinstance(loop, ast.For) and any(
        isinstance(each, ast.Tuple | ast.List) for each in iterated(loop)
    )


_FLOATX = ("keras.backend.set_floatx", "keras.config.set_floatx")
_DOUBLE = {"float", "numpy.float64", "numpy.double", "tensorflow.float64"}


class Float64Input(Rule):
    """`set_floatx("float64")`, or an array cast to float64 for `fit`."""

    words = ("floatx", "astype")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls(*_FLOATX):
            double = module.constant(argument(call, "floatx", 0)) == "float64"
            if double and not module.conditional(call):
                yield (
                    call,
                    (
                        "set_floatx('float64'): the model computes in float64, which may take "
                        "twice as long as float32 on a CPU, and far longer on most GPUs"
                    ),
                )
        if "sklearn" in module.source or "xgboost" in module.source:
            return
        for fit in fits(module):
            given = argument(fit, "x", 0)
            cast = _cast(module, given) if given is not None else None
            if cast is not None:
                yield (
                    cast,
                    (
                        "the input of fit is cast to float64: batches have twice the bytes, and "
                        "Keras layers cast them to float32 in any case, which may take time"
                    ),
                )


def _cast(module: Module, node: ast.expr) -> ast.Call | None:
    node = module.value(node)
    while isinstance(node, ast.BinOp):
        node = module.value(node.left)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    kind = argument(node, "dtype", 0)
    if node.func.attr != "astype" or kind is None:
        return None
    double = module.constant(kind) in ("float64", "float", "double") or module.name(kind) in _DOUBLE
    return node if double else None


class TfIntraOpThreads(Rule):
    """`TF_NUM_INTRAOP_THREADS` set to 1 by the script itself."""

    words = ("TF_NUM_INTRAOP_THREADS",)
    text = (
        "TF_NUM_INTRAOP_THREADS is 1: each operation runs on one core, and the others may stand "
        "idle where the model computes on the CPU"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for node, name, value in variables(module):
            if name == "TF_NUM_INTRAOP_THREADS" and value == "1":
                yield node, self.text
