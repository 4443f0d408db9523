"""The cases of `torch_step_logging`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import GPU
from fixes.cases.common.torch_cases import split, torch_evidence, traced
from fixes.cases.torch_step._logging_examples import EXAMPLES
from trainperf.model import (
    FunctionCost,
    LogCall,
    Loop,
    Missing,
    OwnWork,
    Site,
    SyncPoint,
    Trainer,
)

BATCH_SITE = Site("train.py", 40, "get_batch", col=12, end_line=40, end_col=25)

LOG_SYNC = SyncPoint(
    "item", Site("train.py", 30, "log", col=12, end_line=30, end_col=25), 53, 0.004
)

SUM_SYNC = SyncPoint("item", Site("train.py", 24, "main", col=17, end_line=24, end_col=28), 1, 0.0)

EVALUATES = OwnWork("evaluation", Site("train.py", 31, "log"), 0.5, 200)

LOG = FunctionCost("log", "train.py", 31, 0.5, "main", 200, calls_into="")

HISTOGRAMS = LogCall(
    "wandb.Run.log", Site("train.py", 33, "main", col=12, end_line=35, end_col=13), 1, 0.03, 20
)

LOGGED = Trainer(
    "transformers", "TrainingArguments", made="command", source="--", settings={"logging_steps": 1}
)

PARTS = split(forward=0.015, backward=0.025, optimizer=0.005, rest=0.052)

silent = [
    # nothing is read, nothing logged
    torch_evidence(split=PARTS),
    # a number of a CPU's tensor costs nothing
    torch_evidence(torch={"syncs": (SUM_SYNC,)}),
    torch_evidence(functions=(replace(LOG, share=0.02),), torch={"syncs": (LOG_SYNC,)}),
    # it decides by the number
    torch_evidence(
        split=PARTS, functions=(LOG,), torch={"syncs": (replace(LOG_SYNC, what="bool"),)}
    ),
    # the user's own function, which may do anything
    torch_evidence(split=PARTS, functions=(LOG,)),
    # it makes the batch
    torch_evidence(
        split=PARTS,
        functions=(replace(LOG, name="get_batch"),),
        torch={"syncs": (replace(LOG_SYNC, where=BATCH_SITE),)},
    ),
    # an object that is called for each sample
    torch_evidence(
        split=PARTS,
        torch={"syncs": (replace(LOG_SYNC, where=replace(BATCH_SITE, function="__call__")),)},
    ),
    # in a worker thread
    torch_evidence(functions=(replace(LOG, thread="worker", calls_into="dumps"),)),
    # it evaluates the model, and reads what that gave
    torch_evidence(split=PARTS, torch={"syncs": (LOG_SYNC,)}, own_work=(EVALUATES,)),
    # the function that trains
    torch_evidence(functions=(replace(LOG, name="main", calls_into="add_scalar"),)),
    # the GPU is busy, and so it is with the loss printed seldom
    torch_evidence(device=GPU, torch={"trace": traced(0.98), "syncs": (SUM_SYNC,)}),
    torch_evidence(
        device=GPU, torch={"trace": traced(0.50), "syncs": (replace(SUM_SYNC, calls=0.02),)}
    ),
    # input-bound: the loop cannot be faster than its input
    torch_evidence(input=0.099, split=PARTS, functions=(LOG,), torch={"syncs": (LOG_SYNC,)}),
    torch_evidence(real=None, functions=(LOG,), torch={"syncs": (LOG_SYNC,)}),
    # it takes next to nothing, or comes seldom
    torch_evidence(split=PARTS, torch={"logs": (replace(HISTOGRAMS, seconds=0.0004),)}),
    torch_evidence(split=PARTS, torch={"logs": (replace(HISTOGRAMS, calls=0.02),)}),
    # what a library's own loop calls, and a bar that counts the steps
    torch_evidence(split=PARTS, torch={"logs": (replace(HISTOGRAMS, where=None),)}),
    torch_evidence(split=PARTS, torch={"logs": (replace(HISTOGRAMS, what="tqdm.update"),)}),
]

fires = [
    torch_evidence(split=PARTS, functions=(LOG,), torch={"syncs": (LOG_SYNC,)}),
    # a tracker's call in the loop, with a number that is read for it; in a function
    torch_evidence(
        split=PARTS,
        torch={
            "logs": (HISTOGRAMS,),
            "syncs": (replace(SUM_SYNC, where=replace(SUM_SYNC.where, line=34)),),
        },
    ),
    torch_evidence(
        split=PARTS,
        torch={"logs": (replace(HISTOGRAMS, where=replace(LOG_SYNC.where, line=31)),)},
    ),
    # the parts were not timed
    torch_evidence(split=Missing("not"), functions=(LOG,), torch={"syncs": (LOG_SYNC,)}),
    # a method of a class; what was found on the stacks only
    torch_evidence(split=PARTS, functions=(replace(LOG, name="Log.write", calls_into="dumps"),)),
    # waiting for a GPU
    torch_evidence(device=GPU, torch={"trace": traced(0.60), "syncs": (SUM_SYNC,)}),
    torch_evidence(
        device=GPU,
        split=PARTS,
        torch={
            "trace": traced(0.60),
            "syncs": (replace(SUM_SYNC, printed=True, seconds=0.001),),
        },
    ),
    # a loop without a DataLoader, in no known place
    torch_evidence(
        loader=None,
        resident=None,
        input=None,
        calls=None,
        loop=Loop("update"),
        split=PARTS,
        functions=(LOG,),
        torch={"syncs": (LOG_SYNC,)},
    ),
    # several at once
    torch_evidence(
        device=GPU,
        split=PARTS,
        functions=(LOG,),
        torch={"trace": traced(0.40), "syncs": (LOG_SYNC, SUM_SYNC)},
    ),
]

tries_not = [
    torch_evidence(),
    # it logs seldom already
    torch_evidence(torch={"trainer": replace(LOGGED, settings={"logging_steps": 100})}),
    torch_evidence(torch={"trainer": replace(LOGGED, settings={})}),
]

tries = [torch_evidence(torch={"trainer": LOGGED})]

examples = EXAMPLES
