"""Facts about the loop, read once when all is timed: batch, models, padding, retracing."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING, Any

from . import frames, tf_batches

if TYPE_CHECKING:
    from .tf_drivers import TensorFlowDriver

RECURRENT = ("LSTM", "GRU", "SimpleRNN", "RNN")


def loop_facts(driver: TensorFlowDriver) -> dict[str, Any]:
    """Size and kind of the batch, replicas, epochs, what feeds the loop."""
    facts: dict[str, Any] = {
        "batches_per_step": getattr(driver, "batches_per_step", 1),
        "updates_per_step": getattr(driver, "updates_per_step", 1),
        "epochs_ended": driver.epochs_ended,
    }
    if driver.batch is not None:
        leaves = tf_batches.leaves(driver.batch)
        facts["batch_size"] = _samples(driver.batch)
        facts["batch_bytes"] = tf_batches.size_in_bytes(driver.batch)
        facts["batch_dtypes"] = sorted(
            {leaf.dtype.name for leaf in leaves if hasattr(leaf, "dtype")}
        )
    dataset = driver.dataset()
    if dataset is not None:
        original = getattr(dataset, "_original_dataset", dataset)
        count = int(original.cardinality()) if hasattr(original, "cardinality") else -2
        facts["epoch_steps"] = count if count >= 0 else None
    facts |= fit_facts(driver)
    return facts


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


def fit_facts(driver: TensorFlowDriver) -> dict[str, Any]:
    """What the call of Keras's `fit` says: epochs, validation, callbacks, the adapter."""
    if driver.kind != "fit":
        return {"input_kind": "tf.data" if driver.dataset() is not None else "arrays in the loop"}
    facts: dict[str, Any] = {}
    call = driver.loops.fit_call
    if call is not None:
        where, args, kwargs = call
        names = (
            "x",
            "y",
            "batch_size",
            "epochs",
            "verbose",
            "callbacks",
            "validation_split",
            "validation_data",
        )
        given = dict(zip(names, args, strict=False)) | kwargs
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
    facts["steps_per_execution"] = _steps_per_execution(model)
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is not None:
        facts["strategy"] = type(strategy).__name__
        facts["replicas"] = int(strategy.num_replicas_in_sync)
    return facts


def _steps_per_execution(model: Any) -> int:
    value: Any = getattr(model, "steps_per_execution", None)
    if value is None:
        value = getattr(model, "_steps_per_execution", 1)
    if hasattr(value, "numpy"):
        value = value.numpy()
    return int(value or 1)


def _input_kind(x: Any, driver: TensorFlowDriver) -> dict[str, Any]:
    import tensorflow as tf

    kinds = {cls.__name__ for cls in type(x).__mro__}
    if isinstance(x, (tf.data.Dataset, tf.distribute.DistributedDataset)):
        return {"input_kind": "tf.data"}
    if kinds & {"PyDataset", "Sequence"} and hasattr(x, "__getitem__") and hasattr(x, "workers"):
        return {
            "input_kind": "PyDataset",
            "pydataset": driver.loops.sites.get(("__init__", id(x))),
            "pydataset_arguments": {
                "workers": x.workers,
                "use_multiprocessing": x.use_multiprocessing,
                "max_queue_size": x.max_queue_size,
            },
        }
    if kinds & {"PyDataset", "Sequence"}:
        return {"input_kind": "PyDataset"}
    if hasattr(x, "__next__"):
        return {"input_kind": "generator"}
    if isinstance(x, tf.Tensor):
        return {"input_kind": "tensors"}
    return {"input_kind": "numpy"}


def record(driver: TensorFlowDriver) -> None:
    """Record what is known of the models, the device, callbacks, padding and tracing."""
    import tensorflow as tf

    write = driver.record.write
    build = dict(tf.sysconfig.get_build_info())
    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "") for gpu in gpus]
    write(
        "framework",
        name="tensorflow",
        version=tf.__version__,
        keras=_keras_version(driver),
        legacy=_legacy(driver),
        cuda=bool(build.get("is_cuda_build")),
        gpus=names,
        logical=len(tf.config.list_logical_devices()),
    )
    driver.observer.fact("cuda_visible_devices", os.environ.get("CUDA_VISIBLE_DEVICES"))
    driver.observer.fact("s3_paths", driver.loops.s3_paths())
    driver.observer.fact("functions_run_eagerly", tf.config.functions_run_eagerly())
    for what, part in (
        ("models", _models),
        ("callbacks", _callbacks),
        ("step function", _step_function),
        ("padding", _padding),
    ):
        try:
            part(driver)
        except Exception as error:
            driver.observer.failed(f"facts about {what}", error)


def _legacy(driver: TensorFlowDriver) -> bool:
    import sys

    model = getattr(driver, "model", None)
    if model is not None:
        return type(model).__mro__[-2].__module__.startswith("tf_keras") or any(
            cls.__module__.startswith("tf_keras") for cls in type(model).__mro__
        )
    return "tf_keras.src.engine.training" in sys.modules and "keras.src.trainers" not in sys.modules


def _keras_version(driver: TensorFlowDriver) -> str | None:
    import sys

    module = sys.modules.get("tf_keras" if _legacy(driver) else "keras")
    return getattr(module, "__version__", None)


def _models(driver: TensorFlowDriver) -> None:
    trained = getattr(driver, "model", None)
    models = [trained] if trained is not None else _models_alive(driver)
    for model in models[:4]:
        driver.record.write("model", **_model(driver, model))


def _models_alive(driver: TensorFlowDriver) -> list[Any]:
    """Models in memory with trainable weights, the largest first; inner ones left out."""
    found = []
    for value in gc.get_objects():
        kinds = [(cls.__module__, cls.__name__) for cls in type(value).__mro__]
        model = any(
            name == "Model" and module.startswith(("keras.", "tf_keras.")) for module, name in kinds
        )
        if model and getattr(value, "trainable_variables", None):
            found.append(value)
    inner = {id(layer) for model in found for layer in _layers(model)}
    outer = [model for model in found if id(model) not in inner]
    outer.sort(
        key=lambda model: (-len(model.trainable_variables), type(model).__name__ == "Functional")
    )
    kept: list[Any] = []
    known: set[int] = set()
    for model in outer:  # a Sequential holds a Functional of the same variables
        variables = {id(variable) for variable in model.trainable_variables}
        if not variables <= known:
            kept.append(model)
            known |= variables
    return kept


def _layers(model: Any) -> list[Any]:
    flat = model._flatten_layers(include_self=False, recursive=True)
    return list(flat)


def _model(driver: TensorFlowDriver, model: Any) -> dict[str, Any]:
    layers = _layers(model)
    counts: dict[str, int] = {}
    for layer in layers:
        counts[type(layer).__name__] = counts.get(type(layer).__name__, 0) + 1
    compiled = driver.loops.sites.get(("compile", id(model)))
    given = driver.loops.compile_arguments.get(id(model), {})
    optimizer = getattr(model, "optimizer", None)
    facts = {
        "name": str(getattr(model, "name", "")),
        "cls": type(model).__name__,
        "parameters": int(model.count_params()) if model.built else None,
        "run_eagerly": bool(getattr(model, "run_eagerly", False)) if compiled else False,
        "jit_requested": given.get("jit_compile", "auto") if compiled else None,
        "jit": bool(model.jit_compile) if compiled else None,
        "steps_per_execution": _steps_per_execution(model) if compiled else 1,
        "optimizer": type(optimizer).__name__ if optimizer is not None else "",
        "policy": _policy(model, layers),
        "compute_layers": counts,
        "recurrent": [_recurrent(driver, layer) for layer in layers if _is_recurrent(layer)],
        "jit_blocking": [
            layer.name for layer in layers if getattr(layer, "supports_jit", True) is False
        ],
        "compile_where": compiled,
    }
    facts |= _learning_rate(optimizer)
    if compiled and not facts["jit"]:
        facts["jit_blocker"] = _jit_blocker(model, given, facts)
    return facts


def _policy(model: Any, layers: list[Any]) -> str:
    for layer in [*layers, model]:
        policy = getattr(layer, "dtype_policy", None)
        if policy is not None and getattr(layer, "trainable_weights", None):
            return str(policy.name)
    return ""


def _learning_rate(optimizer: Any) -> dict[str, Any]:
    if optimizer is None:
        return {}
    schedule = getattr(optimizer, "_learning_rate", None)
    scheduled = hasattr(schedule, "get_config") and not hasattr(schedule, "assign")
    try:
        value = float(optimizer.learning_rate)
    except (TypeError, ValueError):
        value = None
    return {"learning_rate": value, "learning_rate_scheduled": bool(scheduled)}


def _jit_blocker(model: Any, given: dict[str, Any], facts: dict[str, Any]) -> str:
    """Which clause of Keras's `_resolve_auto_jit_compile` turned XLA off (Keras 3.15.1)."""
    import tensorflow as tf

    requested = given.get("jit_compile", "auto")
    if requested is False:
        return "jit_compile=False was given to compile()"
    if facts["run_eagerly"]:
        return "run_eagerly is on"
    if not tf.config.list_physical_devices("GPU") and requested == "auto":
        return 'jit_compile="auto" leaves XLA off where there is no GPU'
    if getattr(model, "_distribute_strategy", None) is not None and requested == "auto":
        return 'jit_compile="auto" leaves XLA off under tf.distribute'
    if facts["jit_blocking"]:
        return "these layers do not support XLA: " + ", ".join(facts["jit_blocking"][:5])
    if tf.config.experimental.is_op_determinism_enabled():
        return "op determinism is enabled"
    return "Keras does not say why"


def _is_recurrent(layer: Any) -> bool:
    return any(cls.__name__ == "RNN" for cls in type(layer).__mro__)


def _recurrent(driver: TensorFlowDriver, layer: Any) -> dict[str, Any]:
    cell = getattr(layer, "cell", None)
    config: dict[str, Any] = {"unroll": bool(getattr(layer, "unroll", False))}
    for name in ("activation", "recurrent_activation"):
        function = getattr(cell, name, None)
        if function is not None:
            config[name] = getattr(function, "__name__", str(function))
    for name in ("use_bias", "recurrent_dropout", "reset_after", "dropout"):
        if hasattr(cell, name):
            config[name] = getattr(cell, name)
    if hasattr(layer, "use_cudnn"):
        config["use_cudnn"] = layer.use_cudnn
    if type(layer).__name__ == "RNN":
        config["cell"] = type(cell).__name__
    return {
        "name": layer.name,
        "cls": type(layer).__name__,
        "config": config,
        "where": driver.loops.sites.get(("__init__", id(layer))),
        "supports_jit": bool(getattr(layer, "supports_jit", True)),
    }


def _callbacks(driver: TensorFlowDriver) -> None:
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
            arguments={
                name: value
                for name in (
                    "save_freq",
                    "histogram_freq",
                    "update_freq",
                    "profile_batch",
                    "save_weights_only",
                    "monitor",
                )
                if isinstance(value := getattr(callback, name, None), (int, str, bool))
            },
        )


def _step_function(driver: TensorFlowDriver) -> None:
    """The function that updates the weights, in loops the user wrote, and its tracings."""
    import tensorflow as tf

    loops = driver.loops
    eagerly = tf.config.functions_run_eagerly()
    for function in loops.marked.values():
        python = getattr(function, "_python_function", None)
        code: Any = getattr(getattr(python, "__func__", python), "__code__", None)
        users = code is not None and frames.is_users(code.co_filename)
        driver.record.write(
            "step_function",
            name=getattr(python, "__name__", ""),
            compiled=not eagerly,
            where=frames.definition(code) if users else None,
            jit=bool(getattr(function, "_jit_compile", None)),
            traces=int(function.experimental_get_tracing_count()),
            signatures=_signatures(function),
        )
    if not loops.marked and loops.step_frame is not None and driver.kind != "fit":
        frame = loops.step_frame
        driver.record.write(
            "step_function",
            name=frame["function"],
            compiled=False,
            where={key: frame[key] for key in ("file", "line", "function")},
            tape=frame.get("tape"),
            own=loops.step_is_own_function(),
        )


def _signatures(function: Any) -> list[str]:
    try:
        concrete = function._list_all_concrete_functions()
        return [str(one.structured_input_signature)[:400] for one in concrete[:6]]
    except Exception:
        return []


def _padding(driver: TensorFlowDriver) -> None:
    """How much of padded integer sequences is trailing zeros, over the batches at hand."""
    models = getattr(driver, "model", None)
    recurrent = any(_is_recurrent(layer) for layer in _layers(models)) if models else False
    if not recurrent:
        recurrent = any(
            _is_recurrent(layer) for model in _models_alive(driver) for layer in _layers(model)
        )
    batches = driver.recent_batches()
    if not recurrent or not batches:
        return
    lengths: list[int] = []
    padded: list[int] = []
    for batch in batches:
        for leaf in tf_batches.leaves(batch):
            shape: Any = getattr(leaf, "shape", ())
            if len(shape) == 2 and leaf.dtype.is_integer and shape[1] > 4:
                values = leaf.numpy() != 0
                ends = values.shape[1] - values[:, ::-1].argmax(axis=1)
                lengths += [
                    int(end) if row.any() else 0 for row, end in zip(values, ends, strict=True)
                ]
                padded += [int(shape[1])] * len(values)
                break
    if len(lengths) >= 8:
        driver.record.write(
            "padding",
            lengths=sorted(lengths),
            padded=sum(padded) / len(padded),
            batch=len(lengths) // len(batches),
        )


def probe_eager_step(driver: TensorFlowDriver, deadline: float) -> None:
    """Time the user's eager step function against the same function compiled."""
    from .tf_probes import alternate

    loops = driver.loops
    if loops.marked:
        return
    function = loops.find_step_function()
    if function is None:
        reason = "the gradient tape does not stand in a function that is called once per step"
        driver.record.write("missing", what="probe compiled", reason=reason)
        return
    import tensorflow as tf

    arguments = loops.step_arguments or {}
    compiled = tf.function(function)
    alternate(
        driver,
        "compiled",
        deadline,
        base=lambda: function(**arguments),
        candidate=lambda: compiled(**arguments),
    )
