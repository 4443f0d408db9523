"""Steps so short that starting them costs as much as running them."""

from __future__ import annotations

import math

from trainperf.fixes import Fix
from trainperf.fixes.common.keras_source import compile_seen, set_compile
from trainperf.fixes.common.step import PROBE_LEAST, at_most, bound_if_saved, step_can_matter
from trainperf.fixes.common.words import at, ms, times, worth
from trainperf.model import CallbackCost, Equivalence, Evidence, Finding, Probe, is_taken
from trainperf.rewrite import Script

STEPS = 16
"""Steps run by one call, as in the probe; an epoch that is shorter sets its own length."""

FEWEST, MOST = 8, 128
"""So many steps a call may run where they divide an epoch: with a `steps_per_epoch` that they do
not divide Keras's last call goes beyond it (`range(0, steps_per_epoch, steps_per_execution)` in its
`epoch_iterator.py`), and whatever comes with each epoch comes some steps later."""

STARTED_WITHIN_S = 0.005
"""The most that handing a batch to the compiled step and starting it takes, Keras's callbacks and
bookkeeping apart: 0.5 to 2 ms with Keras 3.15 on two cores."""

DOES_SOMETHING_S = 5e-6
"""A callback that takes longer than this per batch does something in its batch hooks."""


class StepsPerExecution(Fix):
    """Let Keras run several steps per call with `steps_per_execution`.

    ## Why it is slow
    For each step Keras returns to Python, starts the compiled function, hands the
    batch over and runs the callbacks. When a step takes only a few milliseconds,
    that is a large part of it.

    ## What changes
    One call runs 16 steps in a loop inside the graph, or as many near to that as divide an epoch.
    The numbers stay the same. Callbacks, the progress bar and `on_train_batch_end` run once in
    these steps. Where a callback
    in use acts on batches (`ModelCheckpoint(save_freq=100)`, a log or a schedule of your own),
    it saves, writes or sets something else: that changes the experiment.

    ## When not to
    - Callbacks that must see every batch (a learning rate set per batch, a log of each
      loss, a checkpoint every few batches).
    - Steps longer than about 20 ms: there is little to gain.
    - The first call traces and compiles a larger graph.
    """

    category = "host"
    framework = "keras"
    usual = 2.5
    equivalence = Equivalence.EXACT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a `fit` whose steps ran faster several per call."""
        loop, model = evidence.loop, evidence.model
        if loop.kind != "fit" or loop.steps_per_execution > 1 or model.run_eagerly:
            return None
        steps = _per_call(loop.epoch_steps)
        probe = evidence.probe("steps_per_execution")
        step = evidence.times.resident
        least = step / (step - _saved(evidence, probe, probe.low, steps))
        bound = bound_if_saved(evidence, _saved(evidence, probe, probe.ratio, steps))
        if steps < 2 or least < PROBE_LEAST or not worth(evidence, bound):
            return None
        return self._finding(
            evidence,
            f"Steps of {ms(evidence.times.real)} are too short to be started one by one",
            f"With {STEPS} steps per call, the compiled step took {ms(probe.candidate_s)} "
            f"instead of {ms(probe.base_s)} ({times(probe.ratio)}). What Keras does in Python "
            f"between steps, {ms(_between(evidence))} now, then comes once in {steps} steps, as do "
            f"callbacks.",
            bound,
            "a probe of the step in this run, and the Python time between steps",
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try several steps per call, whatever a probe said; long steps have least to gain."""
        loop, model = evidence.loop, evidence.model
        if evidence.framework.name == "torch":  # Keras raises: it must be 1 there
            return None
        alone = loop.kind == "fit" and loop.steps_per_execution <= 1 and not model.run_eagerly
        if not alone or loop.epoch_steps == 1 or not step_can_matter(evidence):
            return None
        return self._finding(
            evidence,
            "Keras starts each step by itself",
            "One call of the compiled function runs one step, and Keras's callbacks and "
            "bookkeeping run after each.",
            _most(evidence),
            "what stands between steps, and starting them",
        )

    def _finding(
        self, evidence: Evidence, title: str, text: str, bound: float | None, basis: str
    ) -> Finding:
        loop, where = evidence.loop, evidence.model.compile_where
        steps = _per_call(loop.epoch_steps)
        acting = [callback for callback in evidence.callbacks if _acts_on_batches(callback)]
        # Where the length of an epoch is not known, Keras 3 counts one optimizer
        # iteration too many at its end with one step per call, and not with more.
        equivalence = Equivalence.EXACT if loop.epoch_steps else Equivalence.NUMERICS
        return self.finding(
            title=title,
            text=text + _more_seldom(acting, steps),
            bound=bound,
            bound_basis=basis,
            where=(where,) if where else (),
            advice=f"Set steps_per_execution={steps} in compile.",
            snippet=f"model.compile(..., steps_per_execution={steps})",
            data={"steps": steps, **compile_seen(evidence)},
            equivalence=Equivalence.SEMANTICS if acting else equivalence,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the keyword in the call of `compile`."""
        steps = finding.data.get("steps", STEPS)
        set_compile(script, finding, "steps_per_execution", str(steps))


def _per_call(epoch_steps: int | None) -> int:
    """Return how many steps a call is to run in epochs of so many (None: not known)."""
    if epoch_steps is None or epoch_steps <= STEPS:
        return epoch_steps or STEPS
    dividing = (steps for steps in range(FEWEST, MOST + 1) if epoch_steps % steps == 0)
    return min(dividing, key=lambda steps: abs(math.log(steps / STEPS)), default=STEPS)


def _most(evidence: Evidence) -> float | None:
    """Return the gain if nothing were left of Python, and of starting a step."""
    times = evidence.times
    if not is_taken(times.real_) or not is_taken(times.host_):
        return at_most(evidence)
    inside = times.real - times.host - STARTED_WITHIN_S
    return at_most(evidence, times.real / inside) if inside > 0 else at_most(evidence)


def _between(evidence: Evidence) -> float:
    """Seconds of Keras's own Python work per step; callbacks have a finding of their own."""
    callbacks = sum(callback.batch_s for callback in evidence.callbacks if not callback.builtin)
    return max(0.0, evidence.times.host - callbacks)


def _saved(evidence: Evidence, probe: Probe, ratio: float, steps: int) -> float:
    """Seconds saved per step if the compiled step gained `ratio`."""
    between = _between(evidence)
    inside = max(0.0, evidence.times.resident - evidence.times.host)
    return inside * (1 - 1 / ratio) + between * (1 - 1 / steps)


def _acts_on_batches(callback: CallbackCost) -> bool:
    """Whether a callback does something in its batch hooks that fewer calls of them change."""
    given = callback.arguments
    if isinstance(given.get("save_freq"), int) or given.get("update_freq", "epoch") != "epoch":
        return True
    if callback.builtin and callback.name != "LambdaCallback":
        return False
    return bool(callback.methods) or callback.batch_s > DOES_SOMETHING_S


def _more_seldom(acting: list[CallbackCost], steps: int) -> str:
    """Name the callbacks whose work would change."""
    names = [
        f"{callback.name} ({at(callback.where)})" if callback.where else callback.name
        for callback in acting
    ]
    if not names:
        return ""
    verb = "acts" if len(names) == 1 else "act"
    return (
        f" {' and '.join(names)} {verb} on batches and would be called once in {steps} of them: "
        "what is saved, logged or set there changes."
    )
