"""Many epochs, with validation, and nothing that ends them early."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.model import Equivalence, Evidence, Finding

MANY_EPOCHS = 20
"""Epochs from which stopping at the best one can save a good part of the run."""


class StopEarly(Fix):
    """Stop when validation no longer improves, with `EarlyStopping`.

    ## Why it is slow
    Not a step is slow, but there may be more of them than needed. A fixed number of
    epochs runs to its end even if the best one came long before.

    ## What changes
    Training ends after `patience` epochs without improvement and goes back to the best
    weights.

    ## When not to
    - Learning-rate schedules that are made for a fixed number of epochs.
    - Noisy validation: a small `patience` stops too soon.
    - Comparisons that need the same number of epochs in each run.
    """

    category = "practice"
    equivalence = Equivalence.SEMANTICS
    without_edit = "what is watched, and how long, is the experimenter's to say"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a long `fit` with validation whose callbacks have nothing that stops it."""
        loop = evidence.loop
        if loop.kind != "fit" or loop.early_stopping or not loop.has_validation:
            return None
        if loop.epochs is None or loop.epochs < MANY_EPOCHS:
            return None
        if any("stop" in name.lower() for name in loop.callbacks_given):
            return None
        return self.finding(
            title=f"{loop.epochs} epochs, and nothing that stops them early",
            text=f"fit runs {loop.epochs} epochs and validates, but has no EarlyStopping. If "
            "validation stops improving, the rest is computed for nothing.",
            bound=None,
            bound_basis="it depends on the course of training",
            where=(loop.where,) if loop.where else (),
            snippet=SNIPPET,
        )


SNIPPET = """\
keras.callbacks.EarlyStopping(monitor="val_loss", patience=5, restore_best_weights=True)"""
