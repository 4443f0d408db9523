"""The cases of `tf_debug_modes`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import GPU, evidence
from rewriting import Example
from trainperf.model import Evidence

CALL = {"file": "train.py", "line": 3, "function": "main", "col": 4, "end_line": 3, "end_col": 40}


def _with(*modes: str, where: Any = CALL, **more: Any) -> Evidence:
    return evidence(facts={"tf_debug_modes": dict.fromkeys(modes, where)}, **more)


silent = [
    evidence(),
    _with(),
    # what it slows down is not what costs
    _with("numerics", real=0.1, resident=0.002, input=0.099),
    _with("dump", real=0.1, resident=0.002, input=0.099),
    _with("eager_input", real=0.1, resident=0.099, input=0.001),
    # its kernels are those of the GPU, and nobody waits for the input
    _with("deterministic", real=0.1, resident=0.099, input=0.001),
    _with("numerics", resident=None),
]

fires = [
    _with("numerics", real=0.1, resident=0.099, input=0.001),
    _with("numerics", real=0.1, resident=0.099, input=0.001, where=None),
    _with("dump", real=0.1, resident=0.099, input=0.001),
    _with("eager_input", real=0.1, resident=0.002, input=0.099),
    _with("deterministic", real=0.1, resident=0.002, input=0.099),
    _with("deterministic", real=0.1, resident=0.099, input=0.001, device=GPU),
]

tries_not = [
    evidence(),
    _with(),
    _with("numerics", where=None),
    _with("numerics", real=0.1, resident=0.002, input=0.1),
]

tries = [
    _with("deterministic", real=0.1, resident=0.099, input=0.001),
    _with("eager_input", resident=None),
    _with("deterministic", resident=None),
]

examples = [
    Example(
        before="import tensorflow as tf\n\n▸tf.debugging.enable_check_numerics()◂\nmodel = f()\n",
        after="import tensorflow as tf\n\nmodel = f()\n",
    ),
    Example(
        before="def main():\n    ▸tf.config.experimental.enable_op_determinism()◂\n"
        '    fit()\n\n\nif __name__ == "__main__":\n    main()\n',
        after='def main():\n    fit()\n\n\nif __name__ == "__main__":\n    main()\n',
    ),
    Example.untouched("on = debug and ▸tf.debugging.enable_check_numerics()◂\n"),
    Example.untouched("if debug:\n    ▸tf.debugging.enable_check_numerics()◂\n"),
]
