"""Settings of a model's `compile`: XLA, eager steps, steps per call; TensorFlow's debug modes."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import PROBE_LEAST, PROBED, Cause, Saving, Unpriced
from trainperf.fixes.common.step import at_most, resident_seconds, saved_by, step_may_matter
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import at, ms, probe_said, recorded_site
from trainperf.fixes.rows import Callee, SetArgument
from trainperf.model import (
    CallbackCost,
    Equivalence,
    Evidence,
    Finding,
    Missing,
    ModelFacts,
    Probe,
    is_taken,
)
from trainperf.rewrite import Script

COMPILE = Callee(defaults={"jit_compile": "auto", "run_eagerly": False, "steps_per_execution": 1})
"""Their values where `compile` is not given them (Keras 3)."""


def _compile_seen(evidence: Evidence) -> dict[str, Any]:
    """What a finding's data must hold for an argument to be set where it came from."""
    model = evidence.model
    return seen_in_call(
        evidence,
        jit_compile=model.jit_requested,
        run_eagerly=bool(model.run_eagerly),
        steps_per_execution=evidence.loop.steps_per_execution,
    )


class KerasJitCompile(Fix):
    """Compile the step with XLA, or `torch.compile`: `jit_compile=True`.

    Why slow: Without XLA each operation of the step is a kernel of its own; XLA fuses them. Keras
    turns it on by itself (`jit_compile="auto"`), but off again, without a word, on hosts without a
    GPU, under `tf.distribute`, with op determinism, and as soon as one layer does not support it.
    On PyTorch it is off unless asked for, and what compiles is `torch.compile`.
    Changes: The step is compiled as a whole before the first batch, which takes seconds to minutes
    once. The mathematics is the same, rounding differs.
    When not:
    - Batches of changing shape are compiled anew for each shape.
    - Runs too short to earn the compilation back (the report gives the number of steps).
    - LSTM and GRU on a GPU: cuDNN is often faster than XLA. Measure both.
    """

    category = "model"
    framework = "keras"
    usual = 1.2
    probed_by = "jit_compile"
    compiles = True
    equivalence = Equivalence.NUMERICS
    edit = SetArgument("jit_compile", "True", COMPILE)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a model without XLA, unless the run is over before compiling it has paid."""
        model, loop = evidence.model, evidence.loop
        if model.jit is not False or model.run_eagerly:
            return None
        probe = evidence.probes.get("jit_compile")
        earned, data = "", _compile_seen(evidence)
        if isinstance(probe, Probe) and (saved := saved_by(evidence, probe)) > 0:
            steps = round(probe.one_off_s / saved) + 1
            if loop.epochs and loop.epoch_steps and steps >= loop.epochs * loop.epoch_steps:
                return None
            earned = f" Compiling took {ms(probe.one_off_s)}, which {steps:,} steps earn back."
            data["break_even_steps"] = steps
        compiler = "torch.compile" if evidence.framework.name == "torch" else "XLA"
        step = "step" if evidence.framework.on_other_backend else "compiled step"
        said = probe_said(evidence, "jit_compile", f"Compiled with {compiler}, the same step")
        where = model.compile_where
        return Cause(
            title=f"{compiler} is off{_why_off(model)}",
            text=f"Keras runs the {step} without {compiler}, each operation as a kernel of its "
            f"own.{said}{earned if said else ''}",
            saves=Saving(PROBED, probe="jit_compile"),
            where=(where,) if where else (),
            advice="Take away what Keras refuses XLA for, and set jit_compile=True."
            if model.jit_refused
            else "Set jit_compile=True in compile.",
            snippet="model.compile(..., jit_compile=True)",
            rewritable=where is not None and where.exact and not model.jit_refused,
            data=data,
        )


def _why_off(model: ModelFacts) -> str:
    if model.jit_requested is False:
        place = f" ({at(model.compile_where)})" if model.compile_where else ""
        return f": compile was given jit_compile=False{place}"
    return f": {model.jit_blocker}" if model.jit_blocker else ""


class KerasRunEagerly(Fix):
    """Take `run_eagerly=True` out of `compile`.

    Why slow: `run_eagerly=True` is meant for debugging. Keras then runs `train_step` in Python,
    operation by operation, instead of as one compiled graph, and XLA is off.
    Changes: `fit` traces the step once and runs the graph. The mathematics is the same; rounding
    and the stream of random numbers may differ.
    When not:
    - A `train_step` or layer that uses `.numpy()`, NumPy or Python lists on tensors needs eager
      mode. Rewrite that part in TensorFlow operations first.
    - While debugging: breakpoints and `print` inside layers work only eagerly.
    """

    framework = "keras"
    usual = 5.0
    probed_by = "compiled"
    equivalence = Equivalence.NUMERICS
    edit = SetArgument("run_eagerly", "False", COMPILE)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a model that runs eagerly for that word alone."""
        on = evidence.model.run_eagerly and not evidence.facts.get("functions_run_eagerly")
        if not on or evidence.framework.name == "torch":
            return None
        where = evidence.model.compile_where
        place = f" ({at(where)})" if where else ""
        return Cause(
            title=f"The model is compiled with run_eagerly=True{place}",
            text="Keras runs the step in Python, operation by operation, which is for debugging."
            f"{probe_said(evidence, 'compiled', 'As a graph, the same step')}",
            saves=as_compiled(evidence),
            where=(where,) if where else (),
            advice="Leave run_eagerly out of compile, and out of every assignment to the model.",
            snippet="model.compile(..., run_eagerly=False)",
            data=_compile_seen(evidence),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Remove the keyword from the call of `compile`, or have it off where it comes from."""
        written = script.call_keywords(finding.where[0]).get("run_eagerly")
        replace(self.edit, drop=written == "True").make(script, finding)


def as_compiled(evidence: Evidence) -> Saving | Unpriced:
    """What an eager step saves as a graph, by its probe."""
    taken = evidence.probes.get("compiled", Missing("compiling the step was not tried"))
    if isinstance(taken, Probe):
        return Saving(PROBED, probe="compiled")
    return unpriced_step(evidence, f"not measured: {taken.reason}")


def unpriced_step(evidence: Evidence, basis: str) -> Saving | Unpriced:
    """No price where a faster step would be felt; elsewhere it is for a trial at most."""
    return Unpriced(basis) if step_may_matter(evidence) else Saving(basis)


STEPS = 16
"""Steps run by one call, as in the probe; an epoch that is shorter sets its own length."""

FEWEST, MOST = 8, 128
"""So many steps a call may run where they divide an epoch: with a `steps_per_epoch` that they do
not divide Keras's last call goes beyond it (`range(0, steps_per_epoch, steps_per_execution)` in its
`epoch_iterator.py`), and whatever comes with each epoch comes some steps later."""

STARTED_WITHIN_S = 0.002
"""The most that handing a batch to the compiled step and starting it took, Keras's callbacks and
bookkeeping apart: 0.5 to 2 ms with Keras 3.15 on two cores."""

DOES_SOMETHING_S = 5e-6
"""A callback that takes longer than this per batch does something in its batch hooks."""


class KerasStepsPerExecution(Fix):
    """Let Keras run several steps per call with `steps_per_execution`.

    Why slow: For each step Keras returns to Python, starts the compiled function, hands the batch
    over and runs the callbacks. When a step takes only a few milliseconds, that is a large part.
    Changes: One call runs 16 steps in a loop inside the graph, or as many near to that as divide
    an epoch. The numbers stay the same. Callbacks, the progress bar and `on_train_batch_end` run
    once in these steps. Where a callback in use acts on batches (`ModelCheckpoint(save_freq=100)`,
    a log or a schedule of your own), it saves, writes or sets something else: that changes the
    experiment.
    When not:
    - Callbacks that must see every batch (a learning rate set per batch, a log of each loss).
    - Steps longer than about 20 ms: there is little to gain.
    - The first call traces and compiles a larger graph.
    """

    framework = "keras"
    usual = 2.5
    edit = SetArgument("steps_per_execution", "{steps}", COMPILE)
    try_before = ("keras_callback_per_batch",)  # it calls what that calls more seldom as well

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a `fit` whose steps are started one by one."""
        loop, model = evidence.loop, evidence.model
        if evidence.framework.name == "torch":  # Keras raises: it must be 1 there
            return None
        alone = loop.kind == "fit" and loop.steps_per_execution <= 1 and not model.run_eagerly
        if not alone or loop.epoch_steps == 1:
            return None
        steps, where = _per_call(loop.epoch_steps), model.compile_where
        acting = [callback for callback in evidence.callbacks if _acts_on_batches(callback)]
        # Where the length of an epoch is not known, Keras 3 counts one optimizer
        # iteration too many at its end with one step per call, and not with more.
        equivalence = Equivalence.EXACT if loop.epoch_steps else Equivalence.NUMERICS
        saves, sure = _several_save(evidence, steps)
        said = probe_said(evidence, "steps_per_execution", f"With {STEPS} steps per call it")
        return Cause(
            title="Keras starts each step by itself",
            text="One call of the compiled function runs one step, and Keras's callbacks and "
            f"bookkeeping run after each.{said}{_more_seldom(acting, steps)}",
            saves=saves,
            where=(where,) if where else (),
            advice=f"Set steps_per_execution={steps} in compile.",
            snippet=f"model.compile(..., steps_per_execution={steps})",
            sure=sure,
            equivalence=Equivalence.SEMANTICS if acting else equivalence,
            data={"steps": steps, **_compile_seen(evidence)},
        )


def _per_call(epoch_steps: int | None) -> int:
    """Return how many steps a call is to run in epochs of so many (None: not known)."""
    if epoch_steps is None or epoch_steps <= STEPS:
        return epoch_steps or STEPS
    dividing = (steps for steps in range(FEWEST, MOST + 1) if epoch_steps % steps == 0)
    return min(dividing, key=lambda steps: abs(math.log(steps / STEPS)), default=STEPS)


def _several_save(evidence: Evidence, steps: int) -> tuple[Saving, bool]:
    """What several steps per call save, and whether a probe shows that they do.

    The probe ran the compiled step alone; what Keras does around it in Python comes once in
    `steps` then. Callbacks have a finding of their own.
    """
    times, probe = evidence.times, evidence.probes.get("steps_per_execution")

    def most() -> float:
        inside = times.real - times.host - STARTED_WITHIN_S
        found = at_most(evidence, times.real / inside if inside > 0 else None)
        if found is None:
            raise NotMeasured("a step may be nothing else")
        return found

    untold = Saving("what stands between steps, and starting them", ratio=most)
    if not (isinstance(probe, Probe) and is_taken(times.host_) and is_taken(times.resident_)):
        return untold, False
    callbacks = sum(callback.batch_s for callback in evidence.callbacks if not callback.builtin)
    between = max(0.0, times.host - callbacks) * (1 - 1 / steps)
    inside = max(0.0, resident_seconds(evidence) - times.host)
    least = inside * (1 - 1 / probe.low) + between
    sure = least >= (1 - 1 / PROBE_LEAST) * times.resident
    if probe.vague and not sure:
        return untold, False
    basis = "a probe of the step in this run, and the Python time between steps"
    return Saving(basis, inside * (1 - 1 / probe.ratio) + between), sure


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
    if not acting:
        return ""
    names = [f"{cost.name}{f' ({at(cost.where)})' if cost.where else ''}" for cost in acting]
    return f" {', '.join(names)} would be called once in {steps} batches, not in each."


WHAT = {
    "numerics": "Each result of each operation is searched for NaN and infinity, in the graph "
    "as well.",
    "deterministic": "The fastest kernels of a GPU are ruled out, XLA is not chosen by itself, "
    "and a `map` that draws random numbers runs on one core.",
}
CALLS = {
    "numerics": "tf.debugging.enable_check_numerics()",
    "deterministic": "tf.config.experimental.enable_op_determinism()",
}


class TfDebugModes(Fix):
    """Turn TensorFlow's debug modes off.

    Why slow: `enable_check_numerics` adds a check to every operation, `enable_op_determinism`
    leaves out the fastest kernels of a GPU, parallel `map`s that draw random numbers, and XLA.
    Changes: The call that turned the mode on is taken out. Without determinism, two runs on a GPU
    differ in the last digits, and random augmentation differs from run to run.
    When not:
    - While you look for a NaN, or for the cause of a difference between two runs.
    - Where results must be the same bit by bit.
    """

    usual = 2.0

    def look(self, evidence: Evidence) -> Cause | None:
        """Find modes that are on, and slow down what the training waits for."""
        modes = evidence.facts.get("tf_debug_modes")
        modes = modes if isinstance(modes, dict) else {}
        known = [mode for mode in CALLS if mode in modes]
        waited = [mode for mode in known if _waited_for(evidence, mode)]
        on = waited or known
        if not on:
            return None
        where = tuple(site for mode in on if (site := recorded_site(modes[mode])))
        calls = " and ".join(f"`{CALLS[mode]}`" for mode in on)
        repeats = "deterministic" in on
        return Cause(
            title=f"A debug mode is on{f' ({at(where[0])})' if where else ''}: {calls}",
            text=" ".join(WHAT[mode] for mode in on),
            saves=Unpriced("not measured") if waited else Saving("not measured"),
            where=where,
            advice="Take it out unless you are looking for a fault"
            f"{' or need runs that repeat exactly' if repeats else ''}.",
            snippet="\n".join(f"# {CALLS[mode]}" for mode in on),
            sure=is_taken(evidence.times.resident_),
            equivalence=Equivalence.NUMERICS if repeats else None,
            rewritable=len(where) == len(on) and all(site.exact for site in where),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Take the calls out, where each is a statement of its own."""
        for site in finding.where:
            *around, statement = script.around(site)
            ifs = (ast.unparse(outer.test) for outer in around if isinstance(outer, ast.If))
            if not isinstance(statement, ast.Expr) or any("__name__" not in test for test in ifs):
                raise CannotRewrite("whether the mode is on is chosen elsewhere")
            script.remove_statement(site)


def _waited_for(evidence: Evidence, mode: str) -> bool:
    """Whether what a mode slows down is a part of the step worth looking at."""
    if mode == "deterministic" and evidence.device.kind != "GPU":
        return not is_taken(evidence.times.resident_) or evidence.input_bound
    return step_may_matter(evidence)
