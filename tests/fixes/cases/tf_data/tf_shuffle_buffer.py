"""The cases of `tf_shuffle_buffer`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import OTHER_SITE, SITE, evidence, stage
from fixes.cases.tf_data._input_cases import LOAD
from rewriting import Example
from trainperf.model import BetweenEpochs, Loop

_FITS: dict[str, Any] = {"element_bytes": 600_000, "cardinality": 3200}

_SHORT_EPOCHS = Loop("fit", where=SITE, batch_size=32, epochs=10, epoch_steps=100)

silent = [
    # filled in a few steps
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(stage("map", 0.01, first_s=0.2), stage("shuffle", 0.0, first_s=1.0)),
    ),
    # long epochs pay for it
    evidence(stages_=(stage("map", 0.01, first_s=0.2), stage("shuffle", 0.0, first_s=4.0))),
    # it was slow to start before the shuffle
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(stage("map", 0.01, first_s=29.5), stage("shuffle", 0.0, first_s=30.0)),
    ),
    # not measured
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(stage("map", 0.01), stage("shuffle", 0.0, first_s=30.0)),
    ),
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(stage("map", 0.01, first_s=0.2), stage("shuffle", 0.0)),
    ),
    # it happens once: epochs restart at once
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(stage("map", 0.01, first_s=0.2), stage("shuffle", 0.0, first_s=30.0)),
        between_epochs=BetweenEpochs(0.1, 2, epoch_steps=100, restart_s=0.05),
    ),
    # a cache before it makes filling cheap, and would freeze a shuffle moved ahead
    evidence(
        resident=0.02,
        input=0.1,
        loop=_SHORT_EPOCHS,
        stages_=(
            stage("map", 0.1, first_s=0.2, function=LOAD, **_FITS),
            stage("shuffle", 0.0, first_s=9.0),
        ),
    ),
    # the length of an epoch is not known
    evidence(
        loop=Loop("iterator", where=SITE),
        stages_=(stage("map", 0.01, first_s=0.2), stage("shuffle", 0.0, first_s=30.0)),
    ),
]

fires = [
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(
            stage("map", 0.01, first_s=0.2, function=LOAD),
            stage("shuffle", 0.0, first_s=9.0, where=OTHER_SITE),
        ),
    ),
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(
            stage("interleave", 0.01, first_s=0.2),
            stage("shuffle", 0.0, first_s=9.0, arguments={"buffer_size": 5000}),
        ),
        between_epochs=BetweenEpochs(8.0, 2, epoch_steps=100, restart_s=7.0),
    ),
]

tries_not = [
    # long epochs pay for it
    evidence(stages_=(stage("map", 0.01, first_s=0.2), stage("shuffle", 0.0, first_s=4.0))),
    # what stands before it cannot go behind it
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(stage("batch", 0.01, first_s=0.2), stage("shuffle", 0.0, first_s=1.5)),
    ),
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(stage("map", 0.01, first_s=0.2), stage("shuffle", 0.0, first_s=1.5)),
        between_epochs=BetweenEpochs(0.1, 2, epoch_steps=100, restart_s=0.05),
    ),
]

tries = [
    evidence(
        loop=_SHORT_EPOCHS,
        stages_=(
            stage("map", 0.01, first_s=0.2, function=LOAD),
            stage("shuffle", 0.0, first_s=1.5, where=OTHER_SITE),
        ),
        between_epochs=BetweenEpochs(2.0, 2, epoch_steps=100, restart_s=1.8),
    ),
]

examples = [
    Example(
        before="ds = ▸▸files.map(load)◂.shuffle(1000)◂.batch(32)\n",
        after="ds = files.shuffle(1000).map(load).batch(32)\n",
    ),
    Example(
        before="ds = ▸ds.map(load)◂\nds = ▸ds.shuffle(1000)◂\n",
        after="ds = ds.shuffle(1000)\nds = ds.map(load)\n",
    ),
    Example(  # several maps, and a prefetch, in one chain
        before="ds = ▸▸▸▸files.map(load)◂.map(resize)◂.prefetch(1)◂.shuffle(1000)◂.batch(32)\n",
        after="ds = files.shuffle(1000).map(load).map(resize).prefetch(1).batch(32)\n",
    ),
    Example(
        before="""\
ds = (
    files
    .▸map(load)◂
    .▸map(resize, num_parallel_calls=8)◂  # of one size
    .▸shuffle(1000)◂
    .batch(32)
)
""",
        after="""\
ds = (
    files
    .shuffle(1000)
    .map(load)
    .map(resize, num_parallel_calls=8)  # of one size
    .batch(32)
)
""",
    ),
    Example(
        before="""\
ds = (
    files
    .▸map(load)◂
    .▸map(resize, num_parallel_calls=8)◂
    .▸shuffle(1000)◂
    .batch(32)
)
""",
        after="""\
ds = (
    files
    .shuffle(1000)
    .map(load)
    .map(resize, num_parallel_calls=8)
    .batch(32)
)
""",
    ),
    Example(
        before="def data(ds):\n    ds = ▸ds.map(load)◂\n    ds = ▸ds.map(resize)◂\n"
        "    ds = ▸ds.shuffle(1000)◂\n    return ds\n",
        after="def data(ds):\n    ds = ds.shuffle(1000)\n    ds = ds.map(load)\n"
        "    ds = ds.map(resize)\n    return ds\n",
    ),
    Example.untouched("ds = ▸▸▸ds.map(load)◂.cache().map(resize)◂.shuffle(9)◂\n"),
    Example.untouched("images = ▸ds.map(load)◂\nds = ▸images.shuffle(1000)◂\n"),
]
