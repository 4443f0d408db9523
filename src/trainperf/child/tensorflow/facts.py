"""Facts about the loop, read once when all is timed: batch, epochs, callbacks, tracing."""

from __future__ import annotations

import os
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from ..process import frames
from ..process.process import Attempt
from . import batches as tf_batches
from . import models
from .retraces import users_function

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

_OLDER = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}
"""Older names of the hooks, which Keras's own call."""

ARGUMENTS = (
    *("save_freq", "histogram_freq", "update_freq", "profile_batch"),
    *("save_weights_only", "monitor"),
)
"""Those of callbacks that are recorded."""

_LEAST_HELD = 2**20
"""Bytes that tensors must have held on a GPU for it to count as used: TensorFlow itself takes
a few kilobytes of each that it sees."""

_MOST_FUNCTIONS = 200


def loop_facts(driver: Driver) -> dict[str, Any]:
    """Size and kind of the batch, replicas, epochs, what feeds the loop."""
    facts: dict[str, Any] = {
        "batches_per_step": getattr(driver, "batches_per_step", 1),
        "updates_per_step": getattr(driver, "updates_per_step", 1),
    }
    if driver.batch is not None:
        leaves = tf_batches.leaves(driver.batch)
        usual = _usual(driver)
        facts["batch_size"] = _samples(usual)
        facts["batch_bytes"] = tf_batches.size_in_bytes(usual)
        facts["batch_parts"] = [
            getattr(getattr(leaf, "dtype", None), "name", "") for leaf in leaves
        ]
        facts["batch_dtypes"] = sorted(
            {leaf.dtype.name for leaf in leaves if hasattr(leaf, "dtype")}
        )
    dataset = driver.dataset()
    if dataset is not None:
        original = tf_batches.undistributed(dataset)
        count = int(original.cardinality()) if original is not None else -2
        facts["epoch_steps"] = count if count >= 0 else driver.epoch_batches
    facts |= fit_facts(driver)
    return facts


def _usual(driver: Driver) -> Any:
    """The last batch, or one before it where the last is the odd one that ends an epoch."""
    batches = driver.recent_batches() or [driver.batch]
    sizes = [_samples(batch) or 0 for batch in batches]
    return batches[sizes.index(statistics.median_high(sizes))]


def _samples(batch: Any) -> int | None:
    """Samples in a batch, by the first dimension of its first tensor, over all replicas."""
    import tensorflow as tf

    for leaf in tf.nest.flatten(batch):
        if isinstance(leaf, tf.distribute.DistributedValues):
            sizes = [_leading(value) for value in leaf.values]
            return sum(size or 0 for size in sizes) or None
        if size := _leading(leaf):
            return size
    return None


def _leading(leaf: Any) -> int | None:
    shape = getattr(leaf, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) and shape[0] else None


def fit_facts(driver: Driver) -> dict[str, Any]:
    """The arguments of the call of Keras's `fit`: epochs, validation, callbacks, the adapter."""
    if driver.kind != "fit":
        return {"input_kind": "tf.data" if driver.dataset() is not None else "arrays in the loop"}
    facts: dict[str, Any] = {}
    call = driver.loops.fit_call
    if call is not None:
        where = call[0]
        given = given_to_fit(call)
        callbacks = given.get("callbacks") or []
        callbacks = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
        classes = [type(callback).__name__ for callback in callbacks]
        facts |= {
            "where": where,
            "epochs": given.get("epochs", 1),
            "has_validation": given.get("validation_data") is not None
            or bool(given.get("validation_split")),
            "callbacks_given": classes,
            "early_stopping": "EarlyStopping" in classes,
            "steps_per_epoch": given.get("steps_per_epoch"),
        }
        facts |= _input_kind(given.get("x"), driver)
    epochs = getattr(driver, "epochs", None)
    count = epochs.steps() if epochs is not None else None
    if count:
        facts["epoch_steps"] = count
    model = getattr(driver, "model", None)
    facts["steps_per_execution"] = models.steps_per_execution(model)
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is not None and type(strategy).__name__ != "_DefaultDistributionStrategy":
        facts["strategy"] = type(strategy).__name__
        facts["replicas"] = int(strategy.num_replicas_in_sync)
    return facts


def given_to_fit(call: Any) -> dict[str, Any]:
    """The arguments of a call of `fit` by their names; none where no call was seen."""
    if call is None:
        return {}
    names = ["x", "y", "batch_size", "epochs", "verbose", "callbacks"]
    names += ["validation_split", "validation_data"]
    given: dict[str, Any] = dict(zip(names, call[1], strict=False)) | call[2]
    return given


def _input_kind(x: Any, driver: Driver) -> dict[str, Any]:
    kinds = {cls.__name__ for cls in type(x).__mro__}
    if kinds & {"DatasetV2", "DistributedDatasetInterface"}:
        return {"input_kind": "tf.data"}
    if "DataLoader" in kinds:
        return {"input_kind": "DataLoader"}
    if kinds & {"PyDataset", "Sequence"} and hasattr(x, "__getitem__") and hasattr(x, "workers"):
        return {
            "input_kind": "PyDataset",
            "pydataset": driver.loops.sites.get(("__init__", id(x))),
            "pydataset_arguments": {
                "workers": x.workers,
                "use_multiprocessing": x.use_multiprocessing,
                "max_queue_size": x.max_queue_size,
            },
            "pydataset_random": item_draws(x),
            "pydataset_item": item_maker(x),
        }
    if kinds & {"PyDataset", "Sequence"}:
        return {"input_kind": "PyDataset"}
    if hasattr(x, "__next__"):
        return {"input_kind": "generator"}
    if "Tensor" in kinds:
        return {"input_kind": "tensors"}
    return {"input_kind": "numpy"}


def record(driver: Driver) -> None:
    """Record what is known of the models, the device, callbacks, padding and tracing."""
    import tensorflow as tf

    build = dict(tf.sysconfig.get_build_info())
    legacy = _legacy(driver)
    driver.record.write(
        "framework",
        name="tensorflow",
        version=tf.__version__,
        keras=getattr(sys.modules.get("tf_keras" if legacy else "keras"), "__version__", None),
        legacy=legacy,
        cuda=bool(build.get("is_cuda_build")),
        gpus=tf_gpus(),
        logical=devices_of_a_worker(tf.config.list_logical_devices()),
    )
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        driver.process.fact(name.lower(), os.environ.get(name))
    if build.get("is_cuda_build"):
        held = [str(name) for name in build.get("cuda_compute_capabilities") or ()]
        built = {"cuda": build.get("cuda_version"), "capabilities": held}
        driver.process.fact("gpu_build", built)
    driver.process.fact("intra_op_threads", os.environ.get("TF_NUM_INTRAOP_THREADS"))
    driver.process.fact("functions_run_eagerly", tf.config.functions_run_eagerly())
    driver.process.fact("tf_debug_modes", driver.loops.debug_modes)
    for what, part in (
        ("strategies", driver.loops.strategies.record),
        ("models", models.record),
        ("callbacks", record_callbacks),
        ("step function", record_step_function),
        ("padding", models.record_padding),
    ):
        with Attempt(driver.process, f"facts about {what}"):
            part(driver)


def _legacy(driver: Driver) -> bool:
    model = getattr(driver, "model", None)
    if model is not None:
        return any(cls.__module__.startswith("tf_keras") for cls in type(model).__mro__)
    return "tf_keras.src.engine.training" in sys.modules and "keras.src.trainers" not in sys.modules


def record_callbacks(driver: Driver) -> None:
    """Record what each callback's hooks took, and where it was made."""
    for callback, costs in driver.loops.callback_costs.values():
        if not costs:
            continue
        module = type(callback).__module__
        driver.record.write(
            "callback",
            name=type(callback).__name__,
            builtin=module.startswith(("keras.", "tf_keras.")),
            where=driver.loops.sites.get(("__init__", id(callback))),
            hooks={name: list(entry) for name, entry in costs.items()},
            methods=definitions(type(callback)),
            functions=_given(callback),
            arguments={
                name: value
                for name in ARGUMENTS
                if isinstance(value := getattr(callback, name, None), (int, str))
            },
        )


def record_step_function(driver: Driver) -> None:
    """The function that updates the weights, in loops the user wrote, and its tracings."""
    import tensorflow as tf

    loops = driver.loops
    eagerly = tf.config.functions_run_eagerly()
    for function in loops.marked.values():
        python, _ = users_function(function)
        code: Any = getattr(python, "__code__", None)
        users = code is not None and frames.is_users(code.co_filename)
        signatures: list[str] = []
        with suppress(Exception):  # those without exchange have the same
            concrete = function._list_all_concrete_functions()
            found = [str(made.structured_input_signature)[:400] for made in concrete]
            signatures = list(dict.fromkeys(found))[:6]
        driver.record.write(
            "step_function",
            name=getattr(python, "__name__", ""),
            compiled=not eagerly,
            where=frames.definition(code) if users else None,
            jit=bool(getattr(function, "_jit_compile", None)),
            signatures=signatures,
        )
    if not loops.marked and loops.tape.frame is not None and driver.kind != "fit":
        frame = loops.tape.frame
        driver.record.write(
            "step_function",
            name=frame["function"],
            compiled=False,
            where={key: frame[key] for key in ("file", "line", "function")},
            tape=frame.get("tape"),
            own=bool(loops.tape.own_function),
        )


def definitions(cls: type) -> dict[str, dict[str, Any]]:
    """Where the user's own source defines a callback's hooks per batch, by hook."""
    found = {}
    for name, older in _OLDER.items():
        for each in (name, older):
            code = getattr(getattr(cls, each, None), "__code__", None)
            # a decorator's inner function has another name, and takes other arguments
            if code is not None and code.co_name == each and frames.is_users(code.co_filename):
                found[name] = frames.definition(code)
                break
    return found


def _given(callback: Any) -> dict[str, dict[str, Any]]:
    """Where the user defines functions that a callback was given for hooks: `LambdaCallback`."""
    found = {}
    for name in _OLDER:
        function = getattr(vars(callback).get(name), "_trainperf_original", None)
        code = getattr(function, "__code__", None)
        own = getattr(function, "__self__", None) is callback  # a method of its class
        if code is not None and not own and frames.is_users(code.co_filename):
            found[name] = frames.definition(code)
    return found


def tf_gpus() -> list[dict[str, Any]]:
    """The GPUs that the script lets TensorFlow see, each with whether it is used.

    TensorFlow tells neither their UUIDs nor their memory. Where it does not say how much was
    used of one (it was cut into several, say), that one counts as used.
    """
    import tensorflow as tf

    seen = tf.config.get_visible_devices("GPU")
    cut = devices_of_a_worker(tf.config.list_logical_devices("GPU")) != len(seen)
    found = []
    for number, gpu in enumerate(seen):
        told = tf.config.experimental.get_device_details(gpu)
        capability = told.get("compute_capability")
        found.append(
            {
                "number": number,
                "name": told.get("device_name", ""),
                "uuid": None,
                "memory": None,
                "capability": None if capability is None else "{}.{}".format(*capability),
                "used": cut or _held(tf, number) >= _LEAST_HELD,
            }
        )
    return found


def devices_of_a_worker(devices: list[Any]) -> int:
    """How many devices a worker has: in a cluster each sees those of all the others as well."""
    workers = Counter(str(device.name).rpartition("/device:")[0] for device in devices)
    return max(workers.values(), default=0)


def _held(tf: Any, number: int) -> int:
    try:
        return int(tf.config.experimental.get_memory_info(f"GPU:{number}")["peak"])
    except Exception:  # not every allocator counts
        return _LEAST_HELD


def item_maker(dataset: Any) -> dict[str, Any] | None:
    """Where the user defines what makes a batch; None where a library or a decorator does."""
    function = getattr(type(dataset), "__getitem__", None)
    if not isinstance(function, FunctionType) or not frames.is_users(function.__code__.co_filename):
        return None
    return frames.definition(function.__code__) if function.__name__ == "__getitem__" else None


def item_draws(dataset: Any) -> bool | None:
    """Whether the code that makes a batch names a random generator; None if it cannot be read.

    The user's own functions and methods that it calls count, and no library's.
    """
    cls = type(dataset)
    try:
        names = [
            name.lower()
            for code in _reached(cls, getattr(cls, "__getitem__", None))
            for name in (*code.co_names, *code.co_freevars, *code.co_varnames)
        ]
        return any("random" in name or "rng" in name.split("_") for name in names)
    except Exception:  # a class may answer `getattr` as it likes
        return None


def _reached(cls: type, start: Any) -> Iterator[CodeType]:
    """The user's code that `start` calls by a name of its class or module, its own first."""
    todo, seen = [start], set[CodeType]()
    while todo and len(seen) < _MOST_FUNCTIONS:
        function = todo.pop()
        function = getattr(function, "__wrapped__", function)
        if not isinstance(function, FunctionType) or not frames.is_users(
            function.__code__.co_filename
        ):
            continue
        for code in frames.nested(function.__code__):
            if code in seen:
                continue
            seen.add(code)
            yield code
            for name in code.co_names:
                todo += [getattr(cls, name, None), function.__globals__.get(name)]
