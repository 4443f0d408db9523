"""Trainings that may need fewer steps: no step of them is slow."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Unpriced
from trainperf.fixes.common.words import at
from trainperf.model import Equivalence, Evidence

UNKNOWN = Unpriced("it depends on the course of training")

MANY_EPOCHS = 20
"""Epochs from which stopping at the best one can save a good part of the run."""


class EarlyStopping(Fix):
    """Stop when validation no longer improves, with `EarlyStopping`.

    ## Why it is slow
    No step is slow, but there may be more of them than needed: a fixed number of epochs runs to
    its end even if the best one came long before.

    ## What changes
    Training ends after `patience` epochs without improvement and goes back to the best weights.

    ## When not to
    With learning-rate schedules made for a number of epochs, with noisy validation (a small
    `patience` stops too soon), and in comparisons that need the same number of epochs.
    """

    category = "practice"
    equivalence = Equivalence.SEMANTICS
    without_edit = "what is watched, and how long, is the experimenter's to say"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a long `fit` with validation whose callbacks have nothing that stops it."""
        loop = evidence.loop
        if loop.kind != "fit" or loop.early_stopping or not loop.has_validation:
            return None
        if (loop.epochs or 0) < MANY_EPOCHS:
            return None
        if any("stop" in name.lower() for name in loop.callbacks_given):
            return None
        return Cause(
            title=f"{loop.epochs} epochs, and nothing that stops them early",
            text=f"fit runs {loop.epochs} epochs and validates, but has no EarlyStopping. If "
            "validation stops improving, the rest is computed for nothing.",
            saves=UNKNOWN,
            where=(loop.where,) if loop.where else (),
            snippet='keras.callbacks.EarlyStopping(monitor="val_loss", patience=5, '
            "restore_best_weights=True)",
        )


TINY = {"adam": 1e-4, "nadam": 1e-4, "adamax": 1e-4, "rmsprop": 1e-4, "sgd": 1e-4}
"""Rates at or below which it is said, by optimizer: a tenth or less of Keras's default
(1e-3 for the Adam family and RMSprop, 1e-2 for SGD). AdamW and Lion are not here: small
rates are their ordinary use."""

TRANSFORMER = 1e-5
"""The line for models with attention, where 1e-4 is ordinary."""

SCHEDULES = ("learningrate", "reducelr", "warmup", "cosine", "schedule", "cyclic", "onecycle")
"""Parts of the names of callbacks that set the learning rate while training runs."""


class LearningRateTiny(Fix):
    """Try a larger learning rate, or a schedule.

    ## Why it is slow
    No step is slow, but there may be more of them than needed: a learning rate far below the
    usual one can need many times the epochs to reach the same loss.

    ## What changes
    The course of training. Try three or four rates, each ten times the last, for a few hundred
    steps, and take the largest with which the loss falls steadily.

    ## When not to
    Fine-tuning of pretrained weights needs small rates; or the rate was searched for, and was
    best.
    """

    category = "practice"
    equivalence = Equivalence.SEMANTICS
    without_edit = "a learning rate is found by training, not by timing"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a fixed rate at or below the line of its optimizer."""
        model = evidence.model
        line, rate = TINY.get(model.optimizer.lower()), model.learning_rate
        if line is None or rate is None or rate <= 0 or model.frozen is not None:
            return None
        given = [name.lower().replace("_", "") for name in evidence.loop.callbacks_given]
        if model.learning_rate_scheduled or any(
            word in name for word in SCHEDULES for name in given
        ):
            return None
        if any("Attention" in layer for layer in model.compute_layers):
            line = min(line, TRANSFORMER)
        if rate > line * 1.001:  # stored as float32, it may lie a hair above the number written
            return None
        where = model.compile_where
        return Cause(
            title=f"The learning rate of {rate:.1g} may need many more epochs",
            text=f"{model.optimizer}{f' ({at(where)})' if where else ''} trains with {rate:.1g} "
            "from the first step to the last. That is usual for fine-tuning; from scratch it may "
            "need many more epochs than a larger rate.",
            saves=UNKNOWN,
            where=(where,) if where else (),
            advice="Unless pretrained weights are fine-tuned, try ten times the rate for a few "
            "hundred steps and compare the losses.",
            snippet=f"keras.optimizers.{model.optimizer}(learning_rate={10 * rate:.1g})",
        )
