"""What `fit` does anew in every epoch: it opens its input, and computes a frozen base."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.keras_source import fit_call, keras_name
from trainperf.fixes.common.words import at, ms, percent, size
from trainperf.model import BetweenEpochs, Epoch, Equivalence, Evidence, Finding, Missing, Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, keyword, starred
from trainperf.source.scopes import LOOPS

LEAST_SHARE = 0.10
"""Share of an epoch from which a pause for callbacks or a restart is told."""

LEAST_SECONDS = 0.5
"""Shorter pauses belong to toy epochs ..."""

MOST_SHARE = 0.5
"""... unless they take more than half of all time."""

REPEAT_IN_FIT = """\
model.fit(dataset.repeat().prefetch(tf.data.AUTOTUNE), steps_per_epoch=len(dataset), epochs=epochs)
"""

REPEAT_IN_LOOP = """\
batches = iter(dataset.repeat())  # under a strategy: repeat, then distribute
for epoch in range(epochs):
    for _ in range(steps):
        train_step(*next(batches))
"""

OPEN_ONCE = "Repeat the dataset inside one iterator, and keep the shuffle buffer small."

ADVICE = {
    "callbacks": "Save less often, or only the best.",
    "restart of the input": OPEN_ONCE,
    "Keras's own work": OPEN_ONCE,
    "callbacks and Keras's own work": f"Save and log less often. {OPEN_ONCE}",
    "not told apart": "Look at what the script does between epochs.",
}
"""What to do about each part of a pause."""

STEPS_PER_EPOCH = 11
"""Its place among the positional arguments of `fit`."""


class KerasEpochEnd(Fix):
    """Take one iterator for all epochs, and do less between them.

    Why slow: Between two epochs the model stands still while callbacks write checkpoints and the
    input starts anew: files are opened, the shuffle buffer is filled. With short epochs this adds
    up.
    Changes: `fit(ds.repeat().prefetch(tf.data.AUTOTUNE), steps_per_epoch=len(ds))` opens the input
    once, and reads ahead while validation runs. Epochs have the same elements; where the dataset
    is shuffled or draws random numbers, in another order and other ones. Fewer or smaller
    checkpoints and a smaller shuffle buffer take less time as well.
    When not:
    - When the dataset changes from epoch to epoch by what Python sets in between.
    - With `steps_per_execution`, unless it divides the steps of an epoch: Keras would round up.
    - Checkpoints guard against losing work: keep as many as the run's length asks for.
    """

    concerns = "epoch end"
    counted = True
    usual = 1.2
    between_epochs = True
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find pauses between epochs: all long parts of them, or what opening the input takes."""
        pause, loop = evidence.between_epochs, evidence.loop
        steps = loop.epoch_steps if pause is None else pause.epoch_steps or loop.epoch_steps
        if pause is None or not steps or loop.epochs == 1:
            return None
        plain = loop.kind == "fit" and loop.steps_per_execution == 1
        repeatable = plain and loop.input_kind == "tf.data" and bool(loop.epoch_steps)
        pause = pause.without_tracing(evidence.startup)
        epoch_s = steps * evidence.times.real + pause.seconds
        parts = _long_parts(evidence, pause, epoch_s)
        avoidable = min(pause.seconds, sum(parts.values()))
        besides = (pause.validation_s or 0.0) + (pause.callbacks_s or 0.0)
        sure = pause.sure and (avoidable >= LEAST_SECONDS or avoidable >= MOST_SHARE * epoch_s)
        if not sure or not parts:
            sure, avoidable = False, pause.seconds - besides
            parts = {"restart of the input": avoidable}
        named = ", ".join(f"{name} {ms(seconds)}" for name, seconds in parts.items())
        advice = dict.fromkeys(ADVICE[name] for name in parts)
        opens = any(OPEN_ONCE in text for text in advice)
        stages = () if isinstance(evidence.stages_, Missing) else evidence.stages_
        mixed = not stages or any(s.stateful_random or "shuffle" in s.op for s in stages)
        # tf.data does not know the number of batches: of a generator's, say
        uncounted = {"uncounted": True} if stages and stages[-1].cardinality is None else {}
        return Cause(
            title=f"{percent(avoidable / epoch_s)} of the time passes between epochs",
            text=f"After each epoch of {steps} steps ({ms(epoch_s - pause.seconds)}), training "
            f"stands still for {ms(pause.seconds)}: {named}."
            f"{' Seen once: the first time may be longer.' if pause.epochs_seen < 2 else ''}",
            saves=Saving(
                "the pause against the length of an epoch",
                ratio=epoch_s / (epoch_s - avoidable),
                of="all",
            ),
            where=(loop.where,) if loop.where else (),
            advice=" ".join(advice),
            snippet=REPEAT_IN_FIT if loop.kind == "fit" else REPEAT_IN_LOOP,
            sure=sure,
            rewritable=None if repeatable and opens else False,
            equivalence=Equivalence.NUMERICS if mixed else Equivalence.EXACT,
            data=uncounted,
            slices=Epoch(steps, epoch_s, besides),
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """With several steps in a call Keras rounds epochs of so many steps up to whole calls."""
        together = other.data.get("steps", 1)
        if other.id != "keras_steps_per_execution" or not isinstance(finding.slices, Epoch):
            return ""
        steps = finding.slices.steps
        if steps % together == 0:
            return ""
        return f"with {together} steps a call Keras would round epochs of {steps} steps up"

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Repeat the dataset of `fit` within one iterator, in epochs of as many steps."""
        site = finding.where[0]
        call = fit_call(script, site)
        if argument(call, "steps_per_epoch", STEPS_PER_EPOCH) is not None:
            raise CannotRewrite("`fit` is told how many steps an epoch has")
        if finding.data.get("uncounted"):
            raise CannotRewrite("the dataset does not know how many batches it has: `len` fails")
        given = script.argument(site, 0, "x")
        if given is None:
            raise CannotRewrite("`fit` is given no dataset")
        dataset = script.name_argument(given, "train_data", "batches")
        tf = script.module_name(site.file, "tensorflow", site)
        place = 0 if call.args else "x"
        script.wrap_argument(site, place, f"{{}}.repeat().prefetch({tf}.data.AUTOTUNE)")
        script.set_keyword(site, "steps_per_epoch", f"len({dataset})")


def _long_parts(evidence: Evidence, pause: BetweenEpochs, epoch_s: float) -> dict[str, float]:
    """The seconds of the parts of a pause that are long against the epoch, the longest first.

    What the script itself calls after an epoch is told by its own line: no edit of `fit` saves it.
    """
    parts = {"callbacks": pause.callbacks_s or 0.0, "restart of the input": pause.restart_s or 0.0}
    rest = pause.seconds - (pause.validation_s or 0.0) - sum(parts.values())
    turn, timed = evidence.outside_, pause.callbacks_s is not None
    if not timed and not isinstance(turn, Missing) and turn.turn == "epoch":
        rest -= turn.on("prediction", "saving", "other")[0]
    of_fit = "Keras's own work" if timed else "callbacks and Keras's own work"
    parts[of_fit if evidence.loop.kind == "fit" else "not told apart"] = rest
    long = {name: seconds for name, seconds in parts.items() if seconds >= LEAST_SHARE * epoch_s}
    return dict(sorted(long.items(), key=lambda part: -part[1]))


LARGE = 1
"""The frozen part has at least so many times the parameters of the part that trains: in a base of
convolutions each of them is used many times for a sample, in the head once."""

NEARLY_ALL = 0.99
"""A share of the parameters that is rounded no further."""

MOST_MEMORY = 0.25
"""Share of the free memory that the features may take: they are held twice while they are made."""

FEWEST_EPOCHS = 2
"""In the first one the features would be computed as well."""

SAVER = "ModelCheckpoint"
"""It saves what it is given by two methods, which may be those of the whole model."""

OBSERVE = frozenset({
    "CSVLogger", "EarlyStopping", "LearningRateScheduler", SAVER, "ReduceLROnPlateau",
    "TensorBoard", "TerminateOnNaN",
})  # fmt: skip
"""Callbacks that do the same with the part of the model that trains."""

ARRAYS = ("numpy", "tensors")


class KerasFrozenBase(Fix):
    """Compute what a frozen base makes of the data once, and train the head on that.

    Why slow: The first layers hold most of the weights, and none of them trains: a pretrained base
    under a new head. For the same image they give the same features in every epoch, yet the images
    are read, decoded and sent through them each time. The head alone takes little.
    Changes: The features of the training and the validation data are computed once, before `fit`,
    and held in memory; `fit` trains a model of the last layers on them. They share their weights
    with the whole model, which is evaluated and saved as before. A shuffled dataset takes another
    order.
    When not:
    - With random augmentation ahead of the base: each epoch has other images.
    - When callbacks of your own call the model that is trained: they would get the head.
    - When the base is to be trained later: that needs the images, as it is written.
    """

    category = "model"
    usual = 4.0
    compiles = True
    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a frozen base under a small head whose input is the same in every epoch."""
        loop, pause = evidence.loop, evidence.between_epochs
        base = evidence.model.frozen if evidence.models else None
        if base is None or base.parameters < LARGE * base.trained or loop.kind != "fit":
            return None
        few = loop.epochs is not None and loop.epochs < FEWEST_EPOCHS
        arrays = loop.input_kind in ARRAYS
        if few or loop.strategy:
            return None
        if not arrays and not _repeats(evidence):
            return None
        steps = loop.epoch_steps or (None if pause is None else pause.epoch_steps)
        if not steps or not loop.batch_size:
            return None
        held = steps * loop.batch_size * base.bytes_per_sample
        if held > MOST_MEMORY * evidence.machine.memory_available:
            return None
        places = (loop.where, evidence.model.compile_where)
        where = tuple(site for site in places if site is not None)
        others = sorted(set(loop.callbacks_given) - OBSERVE)
        part = base.parameters / (base.parameters + base.trained)
        share = percent(part) if part < NEARLY_ALL else f"More than {percent(NEARLY_ALL)}"
        left = f" {others[0]} is given the model that trains." if others else ""
        return Cause(
            title=f"{share} of the model does not train, and is computed anew in every epoch",
            text=f"The first {base.layers} layers of `{evidence.model.name}` have "
            f"{base.parameters:,} parameters, none of which trains, against {base.trained:,} that "
            f"do{f' ({at(loop.where)})' if loop.where else ''}. What they make of the data takes "
            f"{size(held)} in memory, and is the same in every epoch.{left}",
            saves=Unpriced("not measured: the head would have to be built and fed"),
            where=where,
            snippet=SNIPPET,
            rewritable=None if len(where) == len(places) and not others else False,
            data={
                "layers": base.layers,
                "batch_size": loop.batch_size,
                "arrays": arrays,  # `fit` itself shuffles them, unless it is told not to
                "shuffled": arrays or any("shuffle" in stage.op for stage in evidence.stages),
                "saved": SAVER in loop.callbacks_given,
            },
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Build the two parts ahead of `fit`, and fit the second on what the first makes."""
        fit, compiled = finding.where
        call = fit_call(script, fit)
        model = script.expression(script.receiver(fit))
        _check(script, fit, call, model)
        how = _how_compiled(script, fit, compiled)
        features = ""
        frozen = script.free_name(fit.file, "frozen", "frozen_part")
        head = script.free_name(fit.file, "head", "trained_part")
        made = script.free_name(fit.file, "frozen_features")
        keras = keras_name(script, fit.file)
        _validation(script, fit, call, frozen, made)
        if finding.data["arrays"]:
            script.wrap_argument(fit, 0, f"{frozen}.predict({{}})")
        else:
            numpy = script.module_name(fit.file, "numpy", fit)
            features = FEATURES.format(numpy=numpy, frozen=frozen, made=made)
            script.wrap_argument(fit, 0, f"*{made}({{}})")
            script.set_keyword(fit, "batch_size", str(finding.data["batch_size"]))
            if not finding.data["shuffled"]:
                script.set_keyword(fit, "shuffle", "False")
        parts = (PARTS + (SAVES if finding.data.get("saved") else "")).format(
            keras=keras,
            model=model,
            layers=finding.data["layers"],
            frozen=frozen,
            head=head,
            features=features,
            compiled=how,
        )
        script.insert_before(fit, parts)
        script.replace_call(script.receiver(fit), head)


def _repeats(evidence: Evidence) -> bool:
    """Whether a dataset surely gives the same in every epoch."""
    stages = evidence.stages
    return bool(stages and evidence.loop.input_kind == "tf.data") and not any(
        stage.stateful_random or stage.python or "generator" in stage.op for stage in stages
    )


SNIPPET = """\
frozen = keras.Model(model.inputs, model.layers[3].input)
head = keras.Model(model.layers[3].input, model.outputs)
head.compile(...)
head.fit(frozen.predict(x), y, ...)
"""


NOT_GIVEN = frozenset({"steps_per_epoch", "validation_steps", "sample_weight", "class_weight"})
"""Arguments of `fit` that say something of the data which may not hold of the features."""

FEATURES = """
def {made}(dataset):
    batches = [({frozen}.predict_on_batch(x), y) for x, y in dataset]
    return tuple({numpy}.concatenate(part) for part in zip(*batches))

"""

PARTS = """\
# trainperf: the first {layers} layers do not train: what they make of the data is computed once
{frozen} = {keras}.Model({model}.inputs, {model}.layers[{layers}].input)
{features}{head} = {keras}.Model({model}.layers[{layers}].input, {model}.outputs)
{head}.compile({compiled})
"""

SAVES = (
    "{head}.save, {head}.save_weights = {model}.save, {model}.save_weights  # of the whole model\n"
)


def _check(script: Script, fit: Site, call: ast.Call, model: str) -> None:
    """Refuse where no trial would show it: what reads the model behind `fit`, what is no data."""
    if len(call.args) not in (1, 2):
        raise CannotRewrite("the data is not the first argument of `fit`")
    for given in call.keywords:
        if given.arg in NOT_GIVEN:
            raise CannotRewrite(f"`fit` is given {given.arg}")
    if any(isinstance(statement, LOOPS) for statement in script.around(fit)):
        raise CannotRewrite("`fit` stands in a loop")
    for node in ast.walk(script.module(fit.file)):
        used = isinstance(node, ast.Attribute) and node.attr in ("history", "optimizer")
        if used and ast.unparse(node.value) == model:  # type: ignore[attr-defined]
            raise CannotRewrite(f"the file uses {ast.unparse(node)} of the model trained")


def _how_compiled(script: Script, fit: Site, compiled: Site) -> str:
    """The arguments of `compile`: what means nothing where `fit` is called fails in the trial."""
    call = script.call(compiled)
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "compile" or starred(call):
        raise CannotRewrite("not all that the model is compiled with can be seen")
    if fit.file != compiled.file:
        raise CannotRewrite("the model is compiled in another file")
    text = script.source(compiled.file).text_of
    named = [f"{given.arg}={text(given.value)}" for given in call.keywords]
    return ", ".join([*map(text, call.args), *named])


def _validation(script: Script, fit: Site, call: ast.Call, frozen: str, made: str) -> None:
    """Take the features of the validation data, arrays or a dataset, as well."""
    given = keyword(call, "validation_data")
    if given is None or (isinstance(given.value, ast.Constant) and given.value.value is None):
        return
    if not isinstance(given.value, ast.Tuple):
        if len(call.args) == 2:
            raise CannotRewrite("it is not to be seen what the validation data is")
        script.wrap_argument(fit, "validation_data", f"{made}({{}})")
        return
    if len(given.value.elts) != 2:
        raise CannotRewrite("the validation data has weights")
    x, y = map(ast.unparse, given.value.elts)
    script.set_keyword(fit, "validation_data", f"({frozen}.predict({x}), {y})")
