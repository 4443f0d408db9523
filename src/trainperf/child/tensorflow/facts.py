"""Facts about the loop, read once when all is timed: batch, epochs, callbacks, tracing."""

from __future__ import annotations

import os
import statistics
import sys
from collections import Counter
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

from ..process import frames
from ..process.process import Attempt
from . import batches as tf_batches
from . import models

_OLDER = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}
"""Older names of the hooks, which Keras's own call."""

ARGUMENTS = (
    "save_freq", "histogram_freq", "update_freq", "profile_batch", "save_weights_only", "monitor",
)  # fmt: skip
"""Those of callbacks that are recorded."""

OF_FIT = ("x", "y", "batch_size", "epochs", "verbose", "callbacks")
"""The first arguments of `fit` by their places."""

_LEAST_HELD = 2**20
"""Bytes that tensors must have held on a GPU for it to count as used: TensorFlow itself takes
a few kilobytes of each that it sees."""

_MOST_FUNCTIONS = 200


def loop_facts(driver: Any) -> dict[str, Any]:
    """Size and kind of the batch, replicas, epochs, what feeds the loop."""
    facts: dict[str, Any] = {
        "batches_per_step": getattr(driver, "batches_per_step", 1),
        "updates_per_step": getattr(driver, "updates_per_step", 1),
    }
    if driver.batch is not None:
        batches = driver.recent_batches() or [driver.batch]
        sizes = [_samples(batch) or 0 for batch in batches]  # that which ends an epoch is odd
        usual = batches[sizes.index(statistics.median_high(sizes))]
        leaves = tf_batches.leaves(driver.batch)
        facts["batch_size"] = _samples(usual)
        facts["batch_bytes"] = tf_batches.size_in_bytes(usual)
        facts["batch_dtypes"] = sorted(
            {leaf.dtype.name for leaf in leaves if hasattr(leaf, "dtype")}
        )
    dataset = driver.dataset()
    if dataset is not None:
        original = tf_batches.undistributed(dataset)
        count = int(original.cardinality()) if original is not None else -2
        facts["epoch_steps"] = count if count >= 0 else driver.epoch_batches
    return facts | fit_facts(driver)


def _samples(batch: Any) -> int | None:
    """Samples in a batch, by the first dimension of its first tensor, over all replicas."""
    import tensorflow as tf

    for leaf in tf.nest.flatten(batch):
        replicated = isinstance(leaf, tf.distribute.DistributedValues)
        shapes = [getattr(part, "shape", None) for part in (leaf.values if replicated else [leaf])]
        size = sum(int(shape[0] or 0) for shape in shapes if shape is not None and len(shape))
        if size or replicated:
            return size or None
    return None


def fit_facts(driver: Any) -> dict[str, Any]:
    """The arguments of the call of Keras's `fit`: epochs, callbacks, the adapter."""
    if driver.kind != "fit":
        return {"input_kind": "tf.data" if driver.dataset() is not None else "arrays in the loop"}
    facts: dict[str, Any] = {}
    call = driver.loops.fit_call
    if call is not None:
        given = given_to_fit(call)
        callbacks = given.get("callbacks") or []
        callbacks = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
        classes = [type(callback).__name__ for callback in callbacks]
        facts = {
            "where": call[0],
            "epochs": given.get("epochs", 1),
            "callbacks_given": classes,
            "early_stopping": "EarlyStopping" in classes,
            "steps_per_epoch": given.get("steps_per_epoch"),
            **_input_kind(given.get("x"), driver),
        }
    if count := driver.epochs.steps():
        facts["epoch_steps"] = count
    facts["steps_per_execution"] = models.steps_per_execution(driver.model)
    strategy = getattr(driver.model, "distribute_strategy", None)
    if strategy is not None and type(strategy).__name__ != "_DefaultDistributionStrategy":
        facts["strategy"] = type(strategy).__name__
        facts["replicas"] = int(strategy.num_replicas_in_sync)
    return facts


def given_to_fit(call: Any) -> dict[str, Any]:
    """The arguments of a call of `fit` by their names; none where no call was seen."""
    return {} if call is None else dict(zip(OF_FIT, call[1], strict=False)) | call[2]


def _input_kind(x: Any, driver: Any) -> dict[str, Any]:
    kinds = {cls.__name__ for cls in type(x).__mro__}
    if kinds & {"DatasetV2", "DistributedDatasetInterface"}:
        return {"input_kind": "tf.data"}
    if "DataLoader" in kinds:
        return {"input_kind": "DataLoader"}
    if "PyDataset" in kinds:
        return {
            "input_kind": "PyDataset",
            "pydataset": driver.loops.sites.get(("__init__", id(x))),
            "pydataset_arguments": {
                "workers": x.workers,
                "use_multiprocessing": x.use_multiprocessing,
                "max_queue_size": x.max_queue_size,
            },
            "pydataset_random": item_draws(x),
            "pydataset_item": _users_method(type(x), "__getitem__"),
        }
    if hasattr(x, "__next__"):
        return {"input_kind": "generator"}
    return {"input_kind": "tensors" if "Tensor" in kinds else "numpy"}


def record(driver: Any) -> None:
    """Record what is known of the models, the device, callbacks, padding and tracing."""
    import tensorflow as tf

    build = dict(tf.sysconfig.get_build_info())
    driver.record.write(
        "framework",
        name="tensorflow",
        version=tf.__version__,
        keras=getattr(sys.modules.get("keras"), "__version__", None),
        cuda=bool(build.get("is_cuda_build")),
        gpus=tf_gpus(),
        logical=_devices_of_a_worker(tf.config.list_logical_devices()),
    )
    fact = driver.process.fact
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        fact(name.lower(), os.environ.get(name))
    if build.get("is_cuda_build"):
        held = [str(name) for name in build.get("cuda_compute_capabilities") or ()]
        fact("gpu_build", {"cuda": build.get("cuda_version"), "capabilities": held})
    fact("intra_op_threads", os.environ.get("TF_NUM_INTRAOP_THREADS"))
    fact("functions_run_eagerly", tf.config.functions_run_eagerly())
    fact("tf_debug_modes", driver.loops.debug_modes)
    for what, part in (
        ("strategies", driver.loops.strategies.record),
        ("models", models.record),
        ("callbacks", record_callbacks),
        ("step function", record_step_function),
        ("padding", models.record_padding),
    ):
        with Attempt(driver.process, f"facts about {what}"):
            part(driver)


def record_callbacks(driver: Any) -> None:
    """Record what each callback's hooks took, and where it was made."""
    for callback, costs in driver.loops.callback_costs.values():
        if not costs:
            continue
        cls = type(callback)
        driver.record.write(
            "callback",
            name=cls.__name__,
            builtin=cls.__module__.startswith("keras."),
            where=driver.loops.sites.get(("__init__", id(callback))),
            hooks={name: list(entry) for name, entry in costs.items()},
            methods={
                name: _users_method(cls, name) or _users_method(cls, older)
                for name, older in _OLDER.items()
            },
            functions=_given(callback),
            arguments={
                name: value
                for name in ARGUMENTS
                if isinstance(value := getattr(callback, name, None), (int, str))
            },
        )


def _users_method(cls: type, name: str) -> dict[str, Any] | None:
    """Where the user defines a method; None where a library or a decorator does.

    A decorator's inner function has another name, and takes other arguments.
    """
    code = getattr(getattr(cls, name, None), "__code__", None)
    if code is None or code.co_name != name or not frames.is_users(code.co_filename):
        return None
    return frames.definition(code)


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


def record_step_function(driver: Any) -> None:
    """The function that updates the weights, in loops the user wrote, and its tracings."""
    import tensorflow as tf

    loops, tape = driver.loops, driver.loops.tape
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
    if not loops.marked and tape.frame is not None and driver.kind != "fit":
        driver.record.write(
            "step_function",
            name=tape.frame["function"],
            compiled=False,
            where={key: tape.frame[key] for key in ("file", "line", "function")},
            tape=tape.frame["tape"],
            own=bool(tape.own_function),
        )


def users_function(function: Any) -> tuple[Any, bool]:
    """Return the Python function in a `tf.function`, and whether it is a bound method."""
    from tensorflow.python.util import tf_decorator

    unwrapped = tf_decorator.unwrap(function._python_function)[1]
    bound = hasattr(unwrapped, "__func__")
    return (unwrapped.__func__ if bound else unwrapped), bound


def tf_gpus() -> list[dict[str, Any]]:
    """The GPUs that the script lets TensorFlow see, each with whether it is used.

    TensorFlow tells neither their UUIDs nor their memory. Where it does not say how much was
    used of one (it was cut into several, say), that one counts as used.
    """
    import tensorflow as tf

    seen = tf.config.get_visible_devices("GPU")
    cut = _devices_of_a_worker(tf.config.list_logical_devices("GPU")) != len(seen)
    found = []
    for number, gpu in enumerate(seen):
        details = tf.config.experimental.get_device_details(gpu)
        capability = details.get("compute_capability")
        held = _LEAST_HELD
        with suppress(Exception):  # not every allocator counts
            held = int(tf.config.experimental.get_memory_info(f"GPU:{number}")["peak"])
        found.append(
            {
                "number": number,
                "name": details.get("device_name", ""),
                "uuid": None,
                "memory": None,
                "capability": None if capability is None else "{}.{}".format(*capability),
                "used": cut or held >= _LEAST_HELD,
            }
        )
    return found


def _devices_of_a_worker(devices: list[Any]) -> int:
    """How many devices a worker has: in a cluster each sees those of all the others as well."""
    workers = Counter(str(device.name).rpartition("/device:")[0] for device in devices)
    return max(workers.values(), default=0)


def item_draws(dataset: Any) -> bool | None:
    """Whether the code that makes a batch names a random generator; None if it cannot be read.

    The user's own functions and methods that it calls count, and no library's.
    """
    cls = type(dataset)
    try:
        todo, seen = [getattr(cls, "__getitem__", None)], set[CodeType]()
        while todo and len(seen) < _MOST_FUNCTIONS:
            function = todo.pop()
            function = getattr(function, "__wrapped__", function)
            if not isinstance(function, FunctionType):
                continue
            if not frames.is_users(function.__code__.co_filename):
                continue
            for code in set(frames.nested(function.__code__)) - seen:
                seen.add(code)
                for name in (*code.co_names, *code.co_freevars, *code.co_varnames):
                    if "random" in name.lower() or "rng" in name.lower().split("_"):
                        return True
                for name in code.co_names:
                    todo += [getattr(cls, name, None), function.__globals__.get(name)]
        return False
    except Exception:  # a class may answer `getattr` as it likes
        return None
