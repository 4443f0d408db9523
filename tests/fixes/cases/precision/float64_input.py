"""The cases of `float64_input`."""

from __future__ import annotations

from fixes.cases.common.cases import GPU, OTHER_SITE, SITE, evidence, stage
from rewriting import Example
from trainperf.fixes.common.words import MIB
from trainperf.model import Loop, ModelFacts

DOUBLE_MODEL = ModelFacts("model", "Functional", policy="float64", compile_where=SITE)


def _loop(batch_bytes: int | None, *dtypes: str) -> Loop:
    types = tuple(sorted(set(dtypes)))
    return Loop(
        "iterator", where=SITE, batch_bytes=batch_bytes, batch_dtypes=types, batch_parts=dtypes
    )


def _untouched(line: str, **data: object) -> Example:
    return Example.untouched(f"{line}\n", data)


silent = [
    evidence(),
    evidence(loop=_loop(200 * MIB, "float32", "int64")),
    # float64, but a few kilobytes of it: labels, small tables
    evidence(loop=_loop(40_000, "float64", "float32")),
    # how much it is, is not known
    evidence(loop=_loop(None, "float64")),
    # a float64 model that waits for its input
    evidence(model=DOUBLE_MODEL, resident=0.004, input=0.098),
    evidence(real=None, loop=_loop(200 * MIB, "float64")),
]

fires = [
    evidence(loop=_loop(200 * MIB, "float64", "int64")),
    evidence(
        loop=_loop(200 * MIB, "float64", "int64"),
        stages_=(stage("from_tensor_slices", where=OTHER_SITE), stage("batch")),
    ),
    evidence(model=DOUBLE_MODEL),
    evidence(model=DOUBLE_MODEL, device=GPU),
]

examples = [
    Example(
        before="ds = ▸tf.data.Dataset.from_tensor_slices((x / 255.0, labels))◂.batch(8)\n",
        after="ds = tf.data.Dataset.from_tensor_slices("
        '((x / 255.0).astype("float32"), labels)).batch(8)\n',
        data={"parts": ["float64", "int64"]},
    ),
    Example(
        before="ds = ▸tf.data.Dataset.from_tensor_slices(x_train)◂.batch(8)\n",
        after='ds = tf.data.Dataset.from_tensor_slices(x_train.astype("float32")).batch(8)\n',
        data={"parts": ["float64"]},
    ),
    Example(
        before='keras.backend.set_floatx("float64")\n▸model.compile("adam")◂\n',
        after='keras.backend.set_floatx("float32")\nmodel.compile("adam")\n',
        data={"policy": True},
    ),
    # chosen twice, or in another file
    _untouched(
        'keras.backend.set_floatx("float64")\nkeras.config.set_floatx("float64")\n▸f()◂',
        policy=True,
    ),
    _untouched("▸model.compile()◂", policy=True),
    # what the batches are made of is not what the arrays are
    _untouched("▸tf.data.Dataset.from_tensor_slices((a, b))◂", parts=["float64"]),
    _untouched("▸tf.data.Dataset.from_tensor_slices(data)◂", parts=["float64", "int64"]),
    _untouched("▸tf.data.Dataset.from_tensor_slices({'a': a})◂", parts=["float64"]),
]
