"""The cases of `own_function`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence
from fixes.cases.common.torch_cases import torch_evidence
from trainperf.model import Evidence, OwnWork, Site
from trainperf.model.outside import Outside, Spent

STEP = Site("optim.py", 25, "Adam.step")

BY_HAND = OwnWork("optimizer", STEP, 0.47, 300, statement=True)

SCORING = OwnWork("metrics", Site("train.py", 31, "f1_of"), 0.40, 300, calls_into="f1_score")

CELL = OwnWork("recurrence", Site("model.py", 20, "Reader.forward"), 0.28, 300, statement=True)

EVALUATED = Outside("evaluation", 3.0, 10, 2.0, (Spent("evaluation", 1.0, 0.33),))

PREDICTING = OwnWork("metrics", Site("train.py", 31, "act"), 0.40, 300)

PREDICTED = Outside(
    "step", 0.1, 1, 0.6, (Spent("prediction", 0.04, 0.4, calls=4, where=PREDICTING.where),)
)

ITEM = OwnWork("sample", Site("data.py", 12, "Images.__getitem__"), 0.47, 200)


def _work(work: OwnWork, **fields: object) -> Evidence:
    return torch_evidence(own_work=(work,), **fields)  # type: ignore[arg-type]


silent = [
    evidence(),
    torch_evidence(),
    # too little of the step
    _work(replace(BY_HAND, share=0.10)),
    _work(replace(SCORING, share=0.30, kind="other")),
    # too few samples to say so
    _work(replace(BY_HAND, share=0.20, samples=30)),
    # what makes the samples is told by the fixes of the input, where it is waited for
    _work(ITEM, real=0.2, resident=0.1, input=0.1),
    # evaluations that were timed one by one are told by what they took
    _work(replace(SCORING, kind="evaluation"), outside_=EVALUATED),
    # calls of a model that were timed one by one
    evidence(own_work=(PREDICTING,), outside_=PREDICTED),
    # hidden behind a device that is busy all the time
    _work(BY_HAND, real=0.2, resident=0.2, device_s=0.198),
    # a cell in a part of the model that takes little, its backward included
    _work(replace(CELL, share=0.03)),
]

fires = [
    _work(BY_HAND),
    _work(SCORING),
    _work(replace(SCORING, share=0.17)),
    _work(replace(SCORING, kind="evaluation")),
    _work(CELL),
    _work(ITEM),
    _work(replace(SCORING, kind="other"), resident=None, input=None),
    evidence(own_work=(replace(BY_HAND, where=SITE),)),
    # another line than the calls
    evidence(own_work=(replace(PREDICTING, where=SITE),), outside_=PREDICTED),
]
