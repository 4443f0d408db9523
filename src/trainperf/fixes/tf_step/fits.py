"""A `fit` that is called again and again, and what each call does anew."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.keras_source import fit_call
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.tf_step.model_calls import outside_steps
from trainperf.model import Equivalence, Evidence, Finding, is_taken
from trainperf.rewrite import Script

FEW_STEPS = 8
"""Steps of a `fit` up to which its calls are what the loop around it repeats."""

LEAST_SHARE = 0.10
"""Share of a turn that such work must take to be told of; our choice."""

TAKEN = ("x", "y", "sample_weight", "class_weight")
"""Arguments of `fit` that `train_on_batch` has as well, in its order."""
LEFT_OUT = ("batch_size", "epochs", "verbose", "shuffle")
"""Those that say nothing of a single batch."""
BY_PLACE = ("x", "y", "batch_size", "epochs", "verbose", "callbacks")
"""The first arguments of `fit`, as they may be given by their places."""


class KerasFitPerBatch(Fix):
    """Train on each batch by `train_on_batch`, not by a `fit` of its own.

    Why slow: Each call of `fit` makes an input pipeline, opens and closes it, resets metrics and
    calls callbacks: tens of milliseconds, whatever the one step in it takes.
    Changes: `train_on_batch` makes the same update without a pipeline. A `fit` shuffles the
    samples of its batch, so sums are rounded in another order.
    When not:
    - Where callbacks or a validation of `fit` are wanted after each batch.
    - Batches that are all there from the start: one `fit` over them is simpler.
    """

    concerns = "outside"
    framework = "keras"
    counted = True
    usual = 2.0
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find calls of `fit` for a few steps each, whose openings and ends take the time."""
        turn, loop = evidence.outside, evidence.loop
        if turn.turn != "fit" or turn.steps > FEW_STEPS:
            return None
        around, _ = turn.on("opening", "epoch end")
        times = evidence.times
        if is_taken(times.resident_):  # a batch that is handed over waits for no pipeline
            around += turn.steps * max(0.0, times.real - times.resident)
        steps = "one step" if turn.steps == 1 else f"{turn.steps} steps"
        single = turn.steps == 1 and loop.epochs == 1
        return Cause(
            title=f"`fit` is called for {steps} at a time",
            text=f"Each call ({at(loop.where)}) opens, waits for and ends its input: {ms(around)}, "
            f"{percent(around / turn.seconds)} of a turn of {ms(turn.seconds)}.",
            saves=Saving(
                "no time for the input of a `fit`", ratio=turn.ratio_without(around), of="all"
            ),
            where=() if loop.where is None else (loop.where,),
            sure=around >= LEAST_SHARE * turn.seconds,
            advice="Call `train_on_batch` for each batch"
            + ("." if single else ", or one `fit` for all of them."),
            snippet="model.train_on_batch(x, y)",
            slices=outside_steps(evidence),
            rewritable=single and loop.where is not None and loop.where.exact,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Call `train_on_batch` with what `fit` was given."""
        site = finding.where[0]
        call, around = fit_call(script, site), script.around(site)
        if not (isinstance(around[-1], ast.Expr) and around[-1].value is call):
            raise CannotRewrite("what `fit` returns is used")
        given = dict(zip(BY_PLACE, call.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        if others := [name for name in given if name not in (*TAKEN, *LEFT_OUT)]:
            raise CannotRewrite(f"`train_on_batch` has no {others[0]}")
        assert isinstance(call.func, ast.Attribute)
        if f"{ast.unparse(call.func.value)}.history" in script.source(site.file).text:
            raise CannotRewrite("the file reads the model's history")
        owner = script.expression(script.site_of(site, call.func.value))
        texts = {
            name: script.expression(script.site_of(site, given[name]))
            for name in TAKEN
            if name in given
        }
        plain = [texts.pop(name) for name in ("x", "y") if name in texts]
        named = [f"{name}={text}" for name, text in texts.items()]
        script.replace_call(site, f"{owner}.train_on_batch({', '.join([*plain, *named])})")


class KerasCompileInLoop(Fix):
    """Build and compile a model once, and start each training from its first weights.

    Why slow: A new model, or a new `compile`, makes new functions: each of them is traced, and
    compiled by XLA, in its first step. In a loop over folds, windows or settings that comes in
    every turn.
    Changes: One model is compiled before the loop; a turn begins by setting the weights it had at
    first (and the optimizer's variables). Turns that began with other random weights begin with
    the same.
    When not: Where turns differ in layers, shapes, loss or optimizer: then each needs its own.
    """

    concerns = "outside"
    framework = "keras"
    counted = True
    usual = 1.5
    equivalence = Equivalence.SEMANTICS
    without_edit = "what of a turn's model may stay, and what has to begin anew, takes a decision"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a loop whose every `fit` is of another model, which is traced anew."""
        turn, loop = evidence.outside, evidence.loop
        anew, _ = turn.on("tracing")
        if turn.turn != "fit" or not anew:
            return None
        around = f" at {at(evidence.around)}" if evidence.around is not None else ""
        return Cause(
            title="A model is traced anew in each turn of the loop around `fit`",
            text=f"The loop{around} gives each `fit` ({at(loop.where)}) another model, or compiles "
            f"it anew. Tracing its step took {ms(anew)}, {percent(anew / turn.seconds)} of a turn "
            f"of {ms(turn.seconds)}; what else it runs, as `predict`, is traced as well.",
            saves=Saving("the step's tracing alone", ratio=turn.ratio_without(anew), of="all"),
            where=() if loop.where is None else (loop.where,),
            sure=anew >= LEAST_SHARE * turn.seconds,
            snippet="""\
model = build()
model.optimizer.build(model.trainable_variables)  # its moments begin anew as well
first = [variable.numpy() for variable in [*model.variables, *model.optimizer.variables]]
for train, test in folds:
    for variable, value in zip([*model.variables, *model.optimizer.variables], first):
        variable.assign(value)
    model.fit(...)""",
            slices="none",
        )
