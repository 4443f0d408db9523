"""The cases of `keras_frozen_base`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import OTHER_SITE, SITE, evidence, machine, stage
from fixes.cases.tf_step._frozen_edits import EXAMPLES
from trainperf.fixes.common.words import GIB
from trainperf.fixes.tf_step.keras_frozen_base import SAVER
from trainperf.model import (
    BetweenEpochs,
    FrozenBase,
    Loop,
    ModelFacts,
)

BASE = FrozenBase(layers=3, parameters=2_200_000, trained=128_100, bytes_per_sample=5120)

MODEL = ModelFacts("model", "Sequential", compile_where=OTHER_SITE, frozen=BASE)

LOOP = Loop("fit", where=SITE, batch_size=32, epochs=10, epoch_steps=300, input_kind="tf.data")

IMAGES = (stage("list_files"), stage("shuffle"), stage("map"), stage("batch"))

silent = [
    evidence(),
    # nothing is frozen, or little of it
    evidence(loop=LOOP, model=replace(MODEL, frozen=None), stages_=IMAGES),
    evidence(
        loop=LOOP, model=replace(MODEL, frozen=replace(BASE, trained=3 * 10**6)), stages_=IMAGES
    ),
    # random augmentation, in the pipeline or by a generator
    evidence(
        loop=LOOP,
        model=MODEL,
        stages_=(*IMAGES, stage("map", stateful_random=True)),
    ),
    evidence(loop=LOOP, model=MODEL, stages_=(stage("from_generator"), stage("batch"))),
    evidence(loop=LOOP, model=MODEL, stages_=(*IMAGES, stage("map", python=True))),
    evidence(loop=replace(LOOP, input_kind="PyDataset"), model=MODEL),
    # nobody knows what the pipeline does
    evidence(loop=LOOP, model=MODEL),
    # too few epochs
    evidence(loop=replace(LOOP, epochs=1), model=MODEL, stages_=IMAGES),
    # the features do not fit, or it is not known how many there are
    evidence(loop=LOOP, model=MODEL, stages_=IMAGES, machine=machine(available=GIB // 8)),
    evidence(loop=replace(LOOP, epoch_steps=None), model=MODEL, stages_=IMAGES),
    # a strategy; a loop of the user's own
    evidence(loop=replace(LOOP, strategy="MirroredStrategy"), model=MODEL, stages_=IMAGES),
    evidence(loop=replace(LOOP, kind="iterator"), model=MODEL, stages_=IMAGES),
]

fires = [
    evidence(loop=LOOP, model=MODEL, stages_=IMAGES),
    evidence(loop=replace(LOOP, input_kind="numpy"), model=MODEL),
    evidence(loop=LOOP, model=replace(MODEL, frozen=replace(BASE, trained=3843)), stages_=IMAGES),
    evidence(loop=replace(LOOP, epochs=None), model=MODEL, stages_=IMAGES),
    # how many steps an epoch has was seen at its end only: records
    evidence(
        loop=replace(LOOP, epoch_steps=None, callbacks_given=(SAVER,)),
        model=MODEL,
        stages_=IMAGES,
        between_epochs=BetweenEpochs(2.0, 1, 300, validation_s=2.0),
    ),
    # what may call the model is told of it, and nothing is edited
    evidence(loop=replace(LOOP, callbacks_given=("ShowImages",)), model=MODEL, stages_=IMAGES),
]

examples = EXAMPLES
