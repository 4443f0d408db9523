"""What a loop does in each step besides training: it draws a bar, or opens its input anew."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common import trainers
from trainperf.fixes.common.words import at, if_measured, ms, percent
from trainperf.fixes.rows import Callee, SetArgument
from trainperf.model import Equivalence, Evidence, Finding, Missing, Site
from trainperf.rewrite import Script
from trainperf.source.iterations import stored
from trainperf.source.statements import called

OF_KERAS = "ProgbarLogger"
DRAWS = "Progress"
"""Part of the names of the callbacks of Lightning and Transformers that draw a bar."""


class ProgressBar(Fix):
    """Draw no progress bar, or a line for each epoch.

    ## Why it is slow
    Lightning and Keras write a bar with the newest metrics after steps, in Python, while the
    model waits. Where steps are short, that is a part of them; on a GPU, metrics are waited for.

    ## What changes
    `Trainer(enable_progress_bar=False)` of Lightning, `disable_tqdm=True` of Transformers,
    `fit(verbose=2)` of Keras, a line for each epoch. Only what is shown changes: the training and
    what trackers get stay as they are.

    ## When not to
    Where someone watches the training.
    """

    category = "host"
    equivalence = Equivalence.SEMANTICS
    framework = "any"
    edit = SetArgument("verbose", "2", Callee("fit", positions={"verbose": 4}))

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a bar that can be switched off."""
        loop, timed = evidence.loop, True
        fit = loop.where if loop.kind == "fit" else None
        if fit is not None:
            bars = [call.batch_s for call in evidence.callbacks if call.name == OF_KERAS]
        elif trainers.setting_of(self.id, {}, evidence) is None:
            return None
        else:
            timed = not isinstance(evidence.torch.split_, Missing)
            bars = [log.seconds for log in evidence.torch.logs if DRAWS in log.what]
        if timed and not bars:
            return None
        takes = if_measured(lambda: f": {ms(sum(bars))} of {ms(evidence.times.real)}")
        return Cause(
            title="A progress bar is drawn in each step",
            text=f"The loop of a library draws it while the model waits{takes if timed else ''}.",
            saves=Saving("what the bar takes", sum(bars) if timed else None),
            where=() if fit is None else (fit,),
            snippet="model.fit(..., verbose=2)",
            data=trainers.seen_in_call(evidence, verbose=1),
        )


ENDLESS = """\
def endless(loader):
    while True:
        yield from loader

batches = endless(loader)  # once, before the loop
for step in range(steps):
    batch = next(batches)"""


class InputReopened(Fix):
    """Open the input once, and take one batch after another from it.

    ## Why it is slow
    `iter(loader)` starts the input from its beginning: worker processes are forked or spawned,
    shuffling draws a new order, buffers are filled again. `next` takes one batch of what they
    prepare, and the rest is thrown away with the workers.

    ## What changes
    The loop takes batches pass after pass over the data. Each sample then comes once in a pass;
    before, each batch was drawn from all of the data anew.

    ## When not to
    When each batch has to be drawn from all of the data: give the loader a
    `RandomSampler(replacement=True)` and open it once.
    """

    framework = "any"
    category = "input"
    equivalence = Equivalence.SEMANTICS
    usual = 2.0

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a loop that opens its input for each step."""
        where, times = evidence.loop.opened_each, evidence.times
        if where is None:
            return None
        takes = if_measured(
            lambda: (
                f" With its batch at hand a step takes {ms(times.resident)} in place of "
                f"{ms(times.real)}: {percent(1 - times.resident / times.real)} of it is opening, "
                "the first batch and closing."
            )
        )
        return Cause(
            title="The input is opened anew for each batch",
            text=f"{at(where)} opens it, takes one batch and closes it, in each step.{takes}",
            saves=Saving(
                "a step with its batch at hand", lambda: times.real - times.resident, of="all"
            ),
            where=(where,),
            snippet=ENDLESS,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Take `next` of one endless iterator that is made ahead of the loop."""
        site = finding.where[0]
        taking = script.call(site)
        opening = taking.args[0] if called(taking) == "next" and taking.args else None
        if not (isinstance(opening, ast.Call) and called(opening) == "iter" and opening.args):
            raise CannotRewrite("it is not opened by `next(iter(…))`")
        loops = script.source(site.file).module.loops(opening)
        source = ast.unparse(opening.args[0])
        if not loops or not isinstance(opening.args[0], ast.Name | ast.Attribute):
            raise CannotRewrite("no loop of the same function opens it by its name")
        if source in stored([loops[0]]):
            raise CannotRewrite(f"{source} may be another one in each turn")
        batches = script.free_name(site.file, "batches", "batches_of_training")
        endless = script.free_name(site.file, "endless", "pass_after_pass")
        script.replace_call(script.site_of(site, opening), batches)
        head = Site(site.file, loops[0].lineno, site.function)
        script.insert_before(head, f"{batches} = {endless}({source})")
        script.insert_function(
            site.file, f"def {endless}(loader):\n    while True:\n        yield from loader\n"
        )
