"""The cases of `keras_callback_per_batch`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import GPU, OTHER_SITE, SITE, evidence
from fixes.cases.tf_step._callback_examples import EXAMPLES
from trainperf.model import CallbackCost, Loop


def _checkpoint(batch_s: float, **arguments: Any) -> CallbackCost:
    arguments.setdefault("filepath", "last.keras")
    return CallbackCost("ModelCheckpoint", batch_s, 30, where=SITE, arguments=arguments)


def _own(seconds: float) -> CallbackCost:
    methods = {"on_train_batch_end": OTHER_SITE}
    return CallbackCost("LossLog", seconds, 30, where=SITE, methods=methods)


silent = [
    evidence(),
    # light callbacks
    evidence(callbacks=(_checkpoint(0.0, save_freq="epoch"),)),
    evidence(callbacks=(CallbackCost("LossLog", 0.0005, 30, where=SITE),)),
    # seldom enough: 4 % of the step on average
    evidence(callbacks=(_checkpoint(0.004, save_freq=500),)),
    # what Keras itself brings along
    evidence(callbacks=(CallbackCost("ProgbarLogger", 0.02, 30, builtin=True),)),
    # heavy between epochs only
    evidence(callbacks=(CallbackCost("Report", 0.0, 30, epoch_s=4.0, where=SITE),)),
    # overlapped: the loop cannot be faster than its input anyway
    evidence(input=0.099, callbacks=(CallbackCost("Log", 0.02, 30, where=SITE),)),
    evidence(real=None, callbacks=(_checkpoint(0.040, save_freq=1),)),
]

fires = [
    evidence(callbacks=(_checkpoint(0.040, save_freq=1),)),
    evidence(callbacks=(CallbackCost("Histograms", 0.030, 30, where=SITE),)),
    evidence(callbacks=(CallbackCost("Histograms", 0.030, 30),), device=GPU),
    evidence(
        callbacks=(
            CallbackCost("LossLog", 0.020, 30, where=OTHER_SITE),
            CallbackCost("TensorBoard", 0.040, 30, where=SITE, arguments={"update_freq": "batch"}),
        )
    ),
    evidence(callbacks=(_checkpoint(0.040, save_freq=1, filepath="at-{batch}.keras"),)),
    evidence(callbacks=(_own(0.040),)),
    evidence(callbacks=(CallbackCost("LambdaCallback", 0.030, 30, where=SITE, builtin=True),)),
    evidence(callbacks=(_own(0.040),), loop=Loop("fit", where=SITE, steps_per_execution=8)),
]

tries_not = [
    evidence(),
    evidence(callbacks=(_checkpoint(0.004, save_freq=500),)),
    evidence(callbacks=(CallbackCost("ProgbarLogger", 0.02, 30, builtin=True),)),
    evidence(real=None, callbacks=(_checkpoint(0.040, save_freq=1),)),
    # no edit
    evidence(callbacks=(CallbackCost("Report", 0.040, 30, where=SITE),)),
]

tries = [
    evidence(callbacks=(_checkpoint(0.004, save_freq=500), _own(0.004))),
    evidence(real=0.1, resident=0.09, input=0.097, callbacks=(_own(0.006),)),
]

examples = EXAMPLES
