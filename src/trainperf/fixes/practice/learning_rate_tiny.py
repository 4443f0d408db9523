"""A learning rate far below the usual one, left as it is for the whole run."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at
from trainperf.model import Equivalence, Evidence, Finding, Loop

TINY = {"adam": 1e-4, "nadam": 1e-4, "adamax": 1e-4, "rmsprop": 1e-4, "sgd": 1e-4}
"""Rates at or below which it is said, by optimizer: a tenth or less of Keras's default
(1e-3 for the Adam family and RMSprop, 1e-2 for SGD). AdamW and Lion are not here: small
rates are their ordinary use."""

TRANSFORMER = 1e-5
"""The line for models with attention, where 1e-4 is ordinary."""


class RaiseLearningRate(Fix):
    """Try a larger learning rate, or a schedule.

    ## Why it is slow
    Not a step is slow, but there may be more of them than needed. A learning rate far
    below the usual one can need many times the epochs to reach the same loss.

    ## What changes
    The course of training. Try three or four rates, each ten times the last, for a few
    hundred steps, and take the largest with which the loss falls steadily.

    ## When not to
    - Fine-tuning of pretrained weights needs small rates.
    - The rate was searched for, and this one was best.
    """

    category = "practice"
    equivalence = Equivalence.SEMANTICS
    without_edit = "a learning rate is found by training, not by timing"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a fixed rate at or below the line of its optimizer."""
        model = evidence.model
        line = TINY.get(model.optimizer.lower())
        if line is None or model.learning_rate is None or model.learning_rate <= 0:
            return None
        if model.learning_rate_scheduled or _set_by_callback(evidence.loop):
            return None
        if any("Attention" in layer for layer in model.compute_layers):
            line = min(line, TRANSFORMER)
        # The rate is stored as float32, which may lie a hair above the number written.
        if model.learning_rate > line * 1.001 or model.frozen is not None:
            return None
        where = model.compile_where
        place = f" ({at(where)})" if where else ""
        rate = f"{model.learning_rate:.1g}"
        return self.finding(
            title=f"The learning rate of {rate} may need many more epochs",
            text=f"{model.optimizer}{place} trains with {rate} from the first step to the last. "
            "That is usual for fine-tuning; from scratch it may need many more epochs than a "
            "larger rate.",
            bound=None,
            bound_basis="it depends on the course of training",
            where=(where,) if where else (),
            advice="Unless pretrained weights are fine-tuned, try ten times the rate for a few "
            "hundred steps and compare the losses.",
            snippet=f"keras.optimizers.{model.optimizer}(learning_rate="
            f"{10 * model.learning_rate:.1g})",
        )


def _set_by_callback(loop: Loop) -> bool:
    """Whether a callback, by its name, sets the learning rate while training runs."""
    words = ("learningrate", "reducelr", "warmup", "cosine", "schedule", "cyclic", "onecycle")
    names = [name.lower().replace("_", "") for name in loop.callbacks_given]
    return any(word in name for word in words for name in names)
