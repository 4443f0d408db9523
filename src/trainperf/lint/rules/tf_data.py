"""`tf.data`, and what Keras reads from, from source alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.lint.rule import Rule
from trainperf.source.arguments import argument, starred
from trainperf.source.bodies import PYTHON_OPS, drawing, function_of, looping, python_op, reading
from trainperf.source.datasets import BATCHES, chain, is_dataset, stage_name
from trainperf.source.loops import fits
from trainperf.source.module import Module, inside

_GENERATOR = "keras.preprocessing.image.ImageDataGenerator"
_BASES = {
    "keras.utils.PyDataset",
    "keras.utils.Sequence",
    "keras.utils.data_utils.Sequence",
}


class KerasPydatasetWorkers(Rule):
    """A `PyDataset` or image generator without `workers` that reads files, given to `fit`."""

    words = (".fit(", "PyDataset", "Sequence", "flow_from_directory", "flow_from_dataframe")
    text = (
        "{} for each batch and has no workers: one thread reads, taking turns with the training "
        "loop, and the model may wait for it"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for fit in fits(module):
            given = argument(fit, "x", 0)
            made = module.value(given) if given is not None else None
            if not isinstance(made, ast.Call) or starred(fit) or starred(made):
                continue
            if flow := _flow(module, made):
                if not _sets_workers(module):
                    yield made, self.text.format(f"{flow} decodes images")
                continue
            home, owner = module.defined(made.func) or (module, None)
            if not isinstance(owner, ast.ClassDef) or not home.bases(owner) & _BASES:
                continue
            if argument(fit, "workers") is not None or argument(made, "workers") is not None:
                continue
            get = next((each for each in owner.body if _is_get(each)), None)
            read = reading(home, get) if get is not None else None
            if read is not None and not (_sets_workers(module) or _sets_workers(home)):
                yield made, self.text.format(f"{owner.name} calls {read}")


def _flow(module: Module, made: ast.Call) -> str:
    """The method of an `ImageDataGenerator` that made what `fit` gets; "" for another."""
    if not isinstance(made.func, ast.Attribute) or not made.func.attr.startswith("flow_from_"):
        return ""
    owner = module.value(made.func.value)
    name = module.name(owner.func) if isinstance(owner, ast.Call) else None
    return made.func.attr if name == _GENERATOR else ""


def _is_get(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__getitem__"


def _sets_workers(module: Module) -> bool:
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr == "workers":
            return True
        if isinstance(node, ast.keyword) and node.arg in ("workers", None):
            return True
    return False


class TfBatchBeforeShuffle(Rule):
    """`Dataset.shuffle` of whole batches, of samples that were not shuffled before."""

    words = (".shuffle(",)
    text = (
        "shuffle after batch: whole batches are shuffled, so the same samples stay together in "
        "every epoch and training may need more of them; the buffer holds batches, and may take "
        "long to fill"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("shuffle"):
            if not is_dataset(module, call):
                continue
            stages = chain(module, call)
            names = stages.names()[:-1]
            batched = [number for number, name in enumerate(names) if name in BATCHES]
            if not stages.whole or not batched:
                continue
            mixed = {"shuffle", "list_files", "bucket_by_sequence_length"} & set(names)
            if not mixed and not {"unbatch", "flat_map", "window"} & set(names):
                yield call, self.text


class TfGenerator(Rule):
    """`Dataset.from_generator` whose generator reads a file, or loops, for each element."""

    words = ("from_generator",)
    text = (
        "from_generator with a generator that calls {} for each element: it runs on one core and "
        "takes turns with the training loop, so the model may wait for it; a map over file names "
        "uses all cores"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("tensorflow.data.Dataset.from_generator"):
            function = function_of(module, argument(call, "generator", 0))
            if isinstance(function, ast.Lambda) and isinstance(function.body, ast.Call):
                function = function_of(module, function.body.func)
            if function is None:
                continue
            for loop in (each for each in ast.walk(function) if isinstance(each, ast.For)):
                body = ast.Module(body=list(loop.body), type_ignores=[])
                if slow := reading(module, body) or looping(module, body):
                    yield call, self.text.format(slow)
                    break


_READERS = {
    "tensorflow.data.TFRecordDataset",
    "tensorflow.data.TextLineDataset",
    "tensorflow.data.FixedLengthRecordDataset",
    "tensorflow.data.experimental.CsvDataset",
}


class TfInterleaveParallel(Rule):
    """`Dataset.interleave` over files without `num_parallel_calls`."""

    words = ("interleave",)
    text = (
        "interleave over files without num_parallel_calls: it reads one block at a time, and the "
        "model may wait for the disk or the network each time"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("interleave"):
            parallel = argument(call, "num_parallel_calls", 3)
            if starred(call) or not call.args or not is_dataset(module, call):
                continue
            if parallel is None and self._reads(module, call.args[0]):
                yield call, self.text

    def _reads(self, module: Module, node: ast.expr) -> bool:
        if module.name(node) in _READERS:
            return True
        function = function_of(module, node)
        return function is not None and any(
            isinstance(each, ast.Call) and module.name(each.func) in _READERS
            for each in inside(function)
        )


class TfMapParallel(Rule):
    """`Dataset.map` without `num_parallel_calls`, whose function draws random numbers.

    TensorFlow 2.13 and later parallelise every other `map` by themselves.
    """

    words = ("random",)
    text = (
        "map without num_parallel_calls, whose function calls {}: TensorFlow does not parallelise "
        "a random function by itself, so the pipeline may use one core only; "
        "`num_parallel_calls=tf.data.AUTOTUNE` lets it use more"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("map"):
            if starred(call) or not call.args:
                continue
            parallel = argument(call, "num_parallel_calls", 1)
            if parallel is not None and module.constant(parallel) not in (None, 1):
                continue
            function = function_of(module, call.args[0])
            if function is None or not is_dataset(module, call):
                continue
            drawn = drawing(module, function)
            if drawn and python_op(module, function) is None:
                yield call, self.text.format(drawn)


class TfPyFunction(Rule):
    """`tf.py_function` or `tf.numpy_function` in a function given to `Dataset.map`."""

    words = ("py_func", "numpy_function")
    text = (
        "{} in a function given to map: its Python code runs under the interpreter's lock, one "
        "call at a time, and may hold the pipeline up; TensorFlow ops run on all cores"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        if not any(module.calls(*PYTHON_OPS)):
            return
        seen = set()
        for call in module.methods("map"):
            function = function_of(module, call.args[0]) if call.args else None
            if function is None or not is_dataset(module, call):
                continue
            back = python_op(module, function)
            if back is not None and back not in seen:
                seen.add(back)
                yield back, self.text.format(module.name(back.func))


MANY = 500
"""Samples in a buffer: of images of 224 × 224 in float32 they take 300 MB."""


class TfShuffleBuffer(Rule):
    """`Dataset.shuffle` of 500 samples or more after a `map` that reads files."""

    words = (".shuffle(",)
    text = (
        "shuffle({}) after a map that reads or decodes files: {} decoded samples are made and held "
        "before the first batch of every epoch, which may take long; shuffle file names instead, "
        "ahead of the map"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("shuffle"):
            size = module.constant(argument(call, "buffer_size", 0))
            if not isinstance(size, int) or size < MANY or not is_dataset(module, call):
                continue
            stages = chain(module, call)
            ahead = stages.stages[:-1]
            names = stages.names()[:-1]
            if {"cache", "snapshot"} & set(names) or BATCHES & set(names):
                continue
            maps = [each for each, name in zip(ahead, names, strict=True) if name == "map"]
            functions = [function_of(module, each.args[0]) for each in maps if each.args]
            if any(each is not None and reading(module, each) for each in functions):
                yield call, self.text.format(size, size)


_BETWEEN = {"shuffle", "repeat", "prefetch", "cache", "take", "skip", "shard"}
_CHEAP = {"tensorflow.cast", "float", "int"}


class TfVectorisedMap(Rule):
    """`.map(f).batch(n)` over arrays, where `f` only casts and scales."""

    words = ("from_tensor_slices",)
    text = (
        "map before batch, with a function that only casts and scales: calling it for each sample "
        "may cost more than its arithmetic; after batch it is called once per batch"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.methods("batch"):
            if not is_dataset(module, call):
                continue
            stages = chain(module, call).stages[:-1]
            names = tuple(map(stage_name, stages))
            if not names or names[0] != "from_tensor_slices" or names.count("map") != 1:
                continue
            mapped = stages[names.index("map")]
            if set(names[1:]) - _BETWEEN - {"map"} or not mapped.args:
                continue
            function = function_of(module, mapped.args[0])
            result = _result(function)
            if result is not None and _is_cheap(module, result):
                yield mapped, self.text


def _result(function: ast.AST | None) -> ast.expr | None:
    if isinstance(function, ast.Lambda):
        return function.body
    if isinstance(function, ast.FunctionDef) and len(function.body) == 1:
        only = function.body[0]
        return only.value if isinstance(only, ast.Return) else None
    return None


def _is_cheap(module: Module, node: ast.expr) -> bool:
    works = False
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            if module.name(each.func) not in _CHEAP:
                return False
            works = True
        elif isinstance(each, ast.BinOp):
            if isinstance(each.op, ast.MatMult):
                return False
            works = True
        elif not isinstance(each, _PLAIN):
            return False
    return works


_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.operator, ast.expr_context,
          ast.UnaryOp, ast.unaryop, ast.keyword)  # fmt: skip


_PREFIXES = (
    "tensorflow.io.", "tensorflow.data.", "keras.utils.image_dataset", "keras.utils.load_img",
    "keras.utils.text_dataset", "keras.utils.audio_dataset",
)  # fmt: skip


class TfS3Paths(Rule):
    """An `s3://` path given to a function of TensorFlow that reads files."""

    words = ("s3://",)
    text = (
        "{} gets an s3:// path: TensorFlow 2.16 and later cannot open it, and by other means each "
        "object may wait for a request of its own; mount the data or copy it to a local disk"
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in (each for each in module.nodes if isinstance(each, ast.Call)):
            name = module.name(call.func)
            if name is None or not name.startswith(_PREFIXES):
                continue
            given = [*call.args[:1], *(keyword.value for keyword in call.keywords)]
            if any(_is_s3(module, each) for each in given):
                short = name.removeprefix("tensorflow.")
                yield call, self.text.format(short)


def _is_s3(module: Module, node: ast.expr) -> bool:
    node = module.value(node)
    if isinstance(node, ast.List | ast.Tuple):
        return any(_is_s3(module, each) for each in node.elts)
    if isinstance(node, ast.BinOp):
        return _is_s3(module, node.left)
    if isinstance(node, ast.JoinedStr):
        return bool(node.values) and _is_s3(module, node.values[0])
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("s3://")
    )
