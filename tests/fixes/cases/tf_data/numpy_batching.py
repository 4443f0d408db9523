"""The cases of `numpy_batching`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import SITE, evidence
from fixes.cases.tf_data.examples.batching import EXAMPLES
from trainperf.model import (
    Evidence,
    FunctionCost,
    Loop,
    ModelFacts,
)

_CALL = Loop("call", where=SITE, batch_size=32, input_kind="arrays in the loop")


def _found(*functions: FunctionCost, loop: Loop = _CALL, **fields: Any) -> Evidence:
    fields.setdefault("resident", None)
    return evidence(real=0.1, input=None, loop=loop, functions=functions, **fields)


examples = EXAMPLES

silent = [
    _found(),
    _found(FunctionCost("get_batch", "train.py", 116, 0.05, "main", 20, "")),
    _found(FunctionCost("get_batch", "train.py", 116, 0.4, "main", 9, "")),
    # the step itself
    _found(FunctionCost("train", "train.py", 90, 0.8, "main", 300, "train_on_batch")),
    _found(FunctionCost("step", "train.py", 90, 0.8, "main", 300, "error_handler")),
    # not on the thread that trains
    _found(FunctionCost("load", "train.py", 30, 0.8, "worker", 300, "")),
    # tf.data feeds it
    _found(
        FunctionCost("on_batch_end", "train.py", 30, 0.4, "main", 300, "load_img"),
        loop=Loop("fit", where=SITE, input_kind="tf.data"),
    ),
    # resident steps are no faster: the time is in what the loop does with results
    _found(FunctionCost("log", "train.py", 116, 0.4, "main", 300, "load_img"), resident=0.099),
]

fires = [
    _found(FunctionCost("get_batch", "train.py", 116, 0.38, "main", 300, "load_img")),
    _found(
        FunctionCost("train", "train.py", 90, 0.4, "main", 400, "train_on_batch"),
        FunctionCost("augment", "train.py", 30, 0.15, "main", 120),
        FunctionCost("<module>", "train.py", 116, 0.38, "main", 300, ""),
        resident=0.05,
        models=(ModelFacts("model", "Sequential"),),
    ),
]
