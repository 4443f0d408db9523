"""The cases of `progress_bar`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence
from fixes.cases.common.torch_cases import torch_evidence
from rewriting import Example
from trainperf.fixes.practice.progress_bar import OF_KERAS
from trainperf.model import (
    CallbackCost,
    LogCall,
    Loop,
    Missing,
    Trainer,
)

BAR = CallbackCost(OF_KERAS, 0.02, 30, builtin=True)

FITTED = Loop("fit", where=SITE, batch_size=32, epochs=50, epoch_steps=100)

DRAWN = LogCall("lightning.TQDMProgressBar.on_train_batch_end", None, 1.0, 0.02)

LIGHTNING = Trainer("lightning", "Trainer", where=SITE, settings={"enable_progress_bar": None})

TRANSFORMERS = Trainer(
    "transformers", "TrainingArguments", where=SITE, settings={"disable_tqdm": None}
)

silent = [
    evidence(),
    # it takes next to nothing
    evidence(loop=FITTED, callbacks=(replace(BAR, batch_s=0.0005),)),
    torch_evidence(torch={"logs": (replace(DRAWN, seconds=0.0005),), "trainer": LIGHTNING}),
    # a callback of another purpose; no loop of Keras's
    evidence(loop=FITTED, callbacks=(replace(BAR, name="LossLog"),)),
    evidence(loop=replace(FITTED, kind="call"), callbacks=(BAR,)),
    torch_evidence(
        torch={"logs": (replace(DRAWN, what="Watch.on_step_end"),), "trainer": LIGHTNING}
    ),
    # no library whose setting it is
    torch_evidence(torch={"logs": (DRAWN,)}),
    torch_evidence(
        torch={
            "logs": (DRAWN,),
            "trainer": replace(LIGHTNING, settings={"enable_progress_bar": False}),
        }
    ),
    # the loop waits for its input all the same
    evidence(input=0.099, loop=FITTED, callbacks=(BAR,)),
]

fires = [
    evidence(loop=FITTED, callbacks=(BAR,)),
    torch_evidence(torch={"logs": (DRAWN,), "trainer": LIGHTNING}),
    torch_evidence(
        torch={
            "logs": (replace(DRAWN, what="transformers.ProgressCallback.on_step_end"),),
            "trainer": TRANSFORMERS,
        }
    ),
]

tries_not = [
    evidence(),
    evidence(loop=FITTED, callbacks=(replace(BAR, batch_s=0.0005),)),
    torch_evidence(split=Missing("not"), torch={"trainer": None}),
]

tries = [
    # the parts of a step were not timed
    torch_evidence(split=Missing("not"), torch={"trainer": LIGHTNING}),
]

examples = [
    Example(
        before="▸model.fit(x, y, epochs=5)◂\n",
        after="model.fit(x, y, epochs=5, verbose=2)\n",
    ),
    Example(
        before="▸model.fit(x, y, 32, 5, 1)◂\n",
        after="model.fit(x, y, 32, 5, 2)\n",
    ),
    # not `fit` itself
    Example.untouched("▸train(model)◂\n"),
]
