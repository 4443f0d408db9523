"""The cases of `tf_windows`."""

from __future__ import annotations

from fixes.cases.common.cases import OTHER_SITE, stage
from fixes.cases.tf_data._input_cases import fed, starved
from rewriting import Example
from trainperf.fixes.tf_data.tf_windows import BY_BATCH, IN_ORDER, SHUFFLED, UTILITY

BATCHED = {"batch_size": 256}

NAME = "batches_of_windows"

PLAIN = BY_BATCH.format(name=NAME, tf="tf", order="", starts=IN_ORDER.format(tf="tf"))

ORDERED = BY_BATCH.format(
    name=NAME,
    tf="tf",
    order="\n    shuffle=False,\n    seed=None,",
    starts=SHUFFLED.format(tf="tf", np="np"),
)

silent = [
    fed(stage(UTILITY, 0.079, arguments=BATCHED)),
    # windows that the script batches, or hardly any of them
    starved(stage(UTILITY, 0.09), stage("batch", 0.01, arguments=BATCHED)),
    starved(stage(UTILITY, 0.09, arguments={"batch_size": 4})),
    # another stage costs
    starved(stage(UTILITY, 0.004, arguments=BATCHED), stage("map", 0.096)),
    starved(stage(UTILITY, None, arguments=BATCHED)),
    starved(stage("image_dataset_from_directory", 0.09, arguments=BATCHED)),
]

fires = [
    starved(stage(UTILITY, 0.09, arguments=BATCHED)),
    starved(stage(UTILITY, 0.06, arguments=BATCHED), stage("map", 0.04, where=OTHER_SITE)),
]

tries_not = [
    starved(stage(UTILITY, None, arguments=BATCHED), resident=0.1),
    starved(stage(UTILITY, None)),
    starved(stage(UTILITY, 0.004, arguments=BATCHED), stage("map", 0.096)),
]

tries = [
    starved(stage(UTILITY, None, arguments=BATCHED)),
    starved(stage(UTILITY, 0.09, arguments=BATCHED), resident=None),
]

examples = [
    Example(  # the validation's windows are of the same form; others are not
        before=f"""\
import keras
import tensorflow as tf

train = ▸keras.preprocessing.{UTILITY}(
    x, y, sequence_length=120, sampling_rate=step, batch_size=256
)◂
val = keras.utils.{UTILITY}(
    x_val, y_val, sequence_length=120, sampling_rate=step, batch_size=256
)
shown = keras.utils.{UTILITY}(x, y, sequence_length=120)
""",
        after=f"""\
import keras
import tensorflow as tf


{PLAIN}

train = {NAME}(
    x, y, sequence_length=120, sampling_rate=step, batch_size=256
)
val = {NAME}(
    x_val, y_val, sequence_length=120, sampling_rate=step, batch_size=256
)
shown = keras.utils.{UTILITY}(x, y, sequence_length=120)
""",
    ),
    Example(
        before=f"""\
import numpy as np
import tensorflow as tf


def windows(rows):
    ds = ▸tf.keras.utils.{UTILITY}(
        data=rows,
        targets=None,
        sequence_length=24,
        shuffle=True,
        batch_size=32,
        format="tf",
    )◂
    return ds.map(split)
""",
        after=f"""\
import numpy as np
import tensorflow as tf


{ORDERED}

def windows(rows):
    ds = {NAME}(
        data=rows,
        targets=None,
        sequence_length=24,
        shuffle=True,
        batch_size=32,
    )
    return ds.map(split)
""",
    ),
    Example.untouched(f"import keras\n\nds = ▸keras.utils.{UTILITY}(x, y, **how)◂\n"),
    Example.untouched(f"import keras\n\nds = ▸keras.utils.{UTILITY}(*xy, 24)◂\n"),
    Example.untouched(f"import keras\n\nds = ▸keras.utils.{UTILITY}(x, y, 9, format=kind)◂\n"),
    Example.untouched(
        f"import keras\n\nn = None\nds = ▸keras.utils.{UTILITY}(x, y, 9, batch_size=n)◂\n"
    ),
    Example.untouched(f"from helpers import {UTILITY}\n\nds = ▸{UTILITY}(x, y, 9)◂\n"),
]
