"""The cases of `tf_strategy_single`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import SITE, evidence
from rewriting import Example
from trainperf.model import Evidence, Strategy

CPUS = Strategy(
    "MirroredStrategy",
    SITE,
    replicas=2,
    devices=(
        "/job:localhost/replica:0/task:0/device:CPU:0",
        "/job:localhost/replica:0/task:0/device:CPU:1",
    ),
)

GPUS = replace(CPUS, devices=("/device:GPU:0", "/device:GPU:1"))

ALONE = replace(CPUS, replicas=1, devices=CPUS.devices[:1])


def _with(strategy: Strategy, **more: Any) -> Evidence:
    return evidence(facts={"strategy": strategy}, **more)


silent = [
    evidence(),
    _with(GPUS),
    _with(ALONE),
    _with(replace(CPUS, cls="MultiWorkerMirroredStrategy", workers=2)),
    # the input takes as long as the step
    _with(CPUS, resident=0.010, input=0.1),
]

fires = [_with(CPUS), _with(CPUS, resident=None), _with(replace(CPUS, where=None))]

tries_not = [
    evidence(),
    _with(GPUS),
    _with(replace(ALONE, where=None)),
    _with(replace(ALONE, cls="TPUStrategy")),
]

tries = [_with(ALONE), _with(replace(ALONE, devices=("/device:GPU:0",)))]

examples = [
    # built by a function of the user's
    Example.untouched("import tensorflow as tf\n\nstrategy = ▸make()◂\n", {"replicas": 2}),
    Example(
        before="import tensorflow as tf\n\nstrategy = ▸tf.distribute.MirroredStrategy()◂\n",
        after="import tensorflow as tf\n\nstrategy = tf.distribute.get_strategy()\n",
        data={"replicas": 1},
    ),
    # the global batch stays; what is divided by the replicas is divided by one
    Example(
        before="""\
import tensorflow as tf

strategy = ▸tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])◂
print(strategy.num_replicas_in_sync)
batch_size = 64 * strategy.num_replicas_in_sync
scale = 1.0 / strategy.num_replicas_in_sync
""",
        after="""\
import tensorflow as tf

strategy = tf.distribute.get_strategy()
print(strategy.num_replicas_in_sync)
batch_size = 64 * 2
scale = 1.0 / strategy.num_replicas_in_sync
""",
        data={"replicas": 2},
    ),
]
