"""A last batch of an epoch that is compiled for by itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainperf.fixes import Example, Fix
from trainperf.fixes.common.torch_cases import LOADER, MODEL, torch_evidence
from trainperf.fixes.common.words import at, ms, worth_counted
from trainperf.fixes.dataloader._edits import set_setting
from trainperf.fixes.dataloader._loader import places
from trainperf.fixes.torch_step.compiling.torch_recompiling import RECURRING
from trainperf.model import Equivalence, Evidence, Finding, Length, Missing
from trainperf.model.torch.compiling import Compiling, Recompiling

if TYPE_CHECKING:
    from trainperf.rewrite import Script

FIRST_SIZE = re.compile(r"size mismatch at index 0\. expected (\d+), actual (\d+)")
"""The guard on the first dimension, that of the samples (PyTorch 2.1 and later)."""

GUARD = "tensor 'x' size mismatch at index 0. expected 32, actual 8"
ONCE = Recompiling("forward", 1, 60, 9.0, GUARD, once_s=9.0)
SHORT = Length(900, "3 epochs", epochs=3)
HEAD = "from torch.utils.data import DataLoader\n\nloader = "
EXAMPLES = [
    Example(
        before=f"{HEAD}▸DataLoader(data, batch_size=32, shuffle=True)◂\n",
        after=f"{HEAD}DataLoader(data, batch_size=32, shuffle=True, drop_last=True)\n",
    ),
    Example(
        before=f"{HEAD}▸DataLoader(data, 32, drop_last=False)◂\n",
        after=f"{HEAD}DataLoader(data, 32, drop_last=True)\n",
    ),
    Example.untouched("loader = ▸make_loader(data)◂\n"),
]


def _compiled(
    seen: Recompiling | None, length: Length | Missing = SHORT, **loader: Any
) -> Evidence:
    torch = {"compiling": Compiling(recompiling=seen)}
    model = replace(MODEL, compiled=True)
    return torch_evidence(
        model=model, torch=torch, loader=replace(LOADER, **loader), length_=length
    )


class LastBatch(Fix):
    """Leave out the last batch of an epoch where it has fewer samples than the others.

    ## Why it is slow
    `torch.compile` compiles for the shapes it sees. A last batch with fewer samples does not fit
    the code of the others, and the whole model is compiled once more for it, which takes as long
    as hundreds of steps.

    ## What changes
    `drop_last=True` in the call of the `DataLoader`: an epoch is shorter by less than a batch.
    Where samples are shuffled, others are left out in each epoch.

    ## When not to
    - When every sample counts: a batch size that divides their number does the same.
    - In a long training: it is compiled once more, and never again.
    """

    framework = "torch"
    category = "host"
    equivalence = Equivalence.SEMANTICS
    concerns = "outside"
    lasting = False
    counted = True
    examples = EXAMPLES

    silent = [
        torch_evidence(),
        _compiled(None),
        # many shapes, another dimension, larger than usual
        _compiled(replace(ONCE, count=RECURRING)),
        _compiled(replace(ONCE, reason=GUARD.replace("index 0", "index 1"))),
        _compiled(replace(ONCE, reason=GUARD.replace("actual 8", "actual 64"))),
        # not the loader's batches
        _compiled(ONCE, batch_size=16),
        _compiled(ONCE, drop_last=True),
        # over the whole training it is nothing, or nobody knows how long that is
        _compiled(ONCE, replace(SHORT, steps=900_000)),
        _compiled(ONCE, Missing("no end is seen")),
    ]
    fires = [
        _compiled(ONCE),
        _compiled(replace(ONCE, count=2), where=None),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a compilation that fewer samples than the loader's asked for."""
        seen, loader = evidence.torch.compiling.recompiling, evidence.torch.loader
        found = None if seen is None else FIRST_SIZE.search(seen.reason)
        if seen is None or found is None or seen.count >= RECURRING or loader.drop_last:
            return None
        usual, last = (int(each) for each in found.groups())
        if usual != loader.batch_size or last >= usual or isinstance(evidence.length_, Missing):
            return None
        training = evidence.length_.steps * evidence.times.real
        if not worth_counted((training + seen.once_s) / training):
            return None
        where = f" of the `DataLoader` at {at(loader.where)}" if loader.where is not None else ""
        return self.finding(
            title="The last batch of an epoch is compiled for by itself",
            text=f"Batches{where} have {usual} samples, the last of an epoch {last}: "
            f"`{seen.function}` was compiled once more for it, which took {ms(seen.once_s)}. The "
            f"training steps as configured take {ms(training)}.",
            bound=None,
            bound_basis="the steps stay as they are: what it saves comes once",
            where=places(loader),
            advice="Leave the last batch out, or choose a size that divides the samples.",
            snippet="loader = DataLoader(dataset, ..., drop_last=True)",
            data={"outside": True},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have the loader leave it out."""
        set_setting(script, finding.where[0], "drop_last", "True")
