"""Progress bars that a library's loop draws in each step."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common import trainers
from trainperf.fixes.common.keras_source import fit_call
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.model import Equivalence, Evidence, Finding, Missing, Site
from trainperf.rewrite import Script

OF_KERAS = "ProgbarLogger"
DRAWS = "Progress"
"""Part of the names of the callbacks of Lightning and Transformers that draw a bar."""

VERBOSE = 4
"""Its place among the positional arguments of `fit`, in Keras 2 and 3 alike."""


class ProgressBar(Fix):
    """Draw no progress bar, or a line for each epoch.

    ## Why it is slow
    Lightning and Keras write a bar with the newest metrics after steps, in Python, while the
    model waits. Where steps are short, that is a part of them; on a GPU, metrics are waited for.

    ## What changes
    `Trainer(enable_progress_bar=False)` of Lightning, `disable_tqdm=True` of Transformers,
    `fit(verbose=2)` of Keras, which prints a line for each epoch. Only what is shown changes:
    the training and what trackers get stay as they are.

    ## When not to
    - Where someone watches the training.
    """

    category = "host"
    equivalence = Equivalence.SEMANTICS
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a bar that takes a noticeable part of each step, and can be switched off."""
        seconds, where = _drawn(evidence, self.id)
        bound = bound_if_saved(evidence, seconds)
        if not worth(evidence, bound):
            return None
        real = evidence.times.real
        taken = min(real, seconds)
        return self.finding(
            title=f"The progress bar takes {percent(taken / real)} of every step",
            text=f"Of each step of {ms(real)}, drawing the progress bar takes {ms(taken)}.",
            bound=bound,
            bound_basis="what the bar takes",
            where=where,
            advice="Draw no bar where nobody looks at it: only what is shown changes.",
            snippet="model.fit(..., verbose=2)",
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it as well where what the bar takes was not timed."""
        torch = evidence.torch_
        if torch is None or not isinstance(torch.split_, Missing):
            return super().possible(evidence)
        if trainers.setting_of(self.id, {}, evidence) is None:
            return None
        return self.finding(
            title="The loop of a library draws a progress bar",
            text="A bar is drawn while the training runs.",
            bound=None,
            bound_basis="what it takes was not timed",
            rewritable=False,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have Keras print a line for each epoch."""
        site = finding.where[0]
        fit_call(script, site)  # refuses others
        script.set_keyword(site, "verbose", "2", VERBOSE)


def _drawn(evidence: Evidence, id_: str) -> tuple[float, tuple[Site, ...]]:
    """Seconds of a step that the bar of a library's loop takes, and the call of the loop."""
    loop = evidence.loop
    if loop.kind == "fit" and loop.where is not None:
        bars = (one.batch_s for one in evidence.callbacks if one.name == OF_KERAS)
        return sum(bars), (loop.where,)
    if trainers.setting_of(id_, {}, evidence) is None:
        return 0.0, ()
    return sum(log.seconds for log in evidence.torch.logs if DRAWS in log.what), ()
