"""The cases of `tf_padding`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence, stage
from fixes.cases.tf_data.examples.cutting import EXAMPLES
from trainperf.model import Loop, PaddedPlace, Padding

ARRAYS = Loop("fit", where=SITE, batch_size=32, epochs=4, epoch_steps=50, input_kind="numpy")

MASKED = Padding(32, 250, 45, 640, longest_length=76, masked=True)

PAIR = replace(MASKED, place=PaddedPlace("tuple", 0, (0,)))

BATCHES = (stage("from_tensor_slices", 0.0), stage("padded_batch", 0.01))

silent = [
    evidence(),
    # the model reads its padding, or it was not asked: that is another experiment
    evidence(loop=ARRAYS, padding=Padding(32, 250, 45, 640, longest_length=76, masked=False)),
    evidence(loop=ARRAYS, padding=Padding(32, 250, 45, 640, longest_length=76)),
    # cut to the longest of each batch already
    evidence(stages_=BATCHES, padding=Padding(32, 80, 45, 640, longest_length=80, masked=True)),
    evidence(
        stages_=(stage("batch", 0.01),),
        padding=replace(PAIR, padded_length=80, longest_length=80),
    ),
    # the model was not asked, or reads the padding that a generator made
    evidence(stages_=(stage("batch", 0.01),), padding=replace(PAIR, masked=None)),
    evidence(stages_=(stage("batch", 0.01),), padding=replace(PAIR, masked=False)),
    # too few to tell
    evidence(loop=ARRAYS, padding=Padding(32, 250, 45, 12, longest_length=76, masked=True)),
    # the step is not what costs
    evidence(loop=ARRAYS, padding=MASKED, real=0.1, resident=0.004),
    evidence(loop=ARRAYS, padding=MASKED, real=0.1, resident=0.05, input=0.1),
]

fires = [
    evidence(loop=ARRAYS, padding=MASKED),
    evidence(stages_=BATCHES, padding=MASKED),
    evidence(stages_=(stage("batch", 0.01), stage("prefetch", 0.0)), padding=PAIR),
    evidence(loop=ARRAYS, padding=Padding(250, 250, 250, 640, longest_length=76, masked=True)),
]

tries_not = [
    evidence(loop=ARRAYS, resident=None),
    evidence(
        loop=ARRAYS,
        resident=None,
        padding=Padding(32, 250, 45, 640, longest_length=76, masked=False),
    ),
]

tries = [evidence(loop=ARRAYS, padding=MASKED, resident=None)]

examples = EXAMPLES
