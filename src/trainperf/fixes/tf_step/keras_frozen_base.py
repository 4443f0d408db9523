"""A large part of a model that does not train, computed anew in every epoch."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.keras_source import fit_call, keras_name
from trainperf.fixes.common.words import at, percent
from trainperf.model import Equivalence, Evidence, Finding, Site
from trainperf.model.words import size
from trainperf.rewrite import Script
from trainperf.source.arguments import keyword, starred
from trainperf.source.statements import Function, assigned, names_in

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

OBSERVE = frozenset(
    [
        "CSVLogger",
        "EarlyStopping",
        "LearningRateScheduler",
        SAVER,
        "ReduceLROnPlateau",
        "TensorBoard",
        "TerminateOnNaN",
    ]
)
"""Callbacks that do the same with the part of the model that trains."""

ARRAYS = ("numpy", "tensors")


class FrozenOnce(Fix):
    """Compute what a frozen base makes of the data once, and train the head on that.

    ## Why it is slow
    The first layers hold most of the weights, and none of them trains: a pretrained base
    under a new head. For the same image they give the same features in every epoch, yet the
    images are read, decoded and sent through them each time. The head alone takes little.

    ## What changes
    The features of the training and the validation data are computed once, before `fit`, and
    held in memory; `fit` trains a model of the last layers on them. They share their weights
    with the whole model, which is evaluated and saved as before. A shuffled dataset takes
    another order.

    ## When not to
    - With random augmentation ahead of the base: each epoch has other images.
    - When callbacks of your own call the model that is trained: they would get the head.
    - When the base is to be trained later: that needs the images, as it is written.
    """

    category = "model"
    usual = 4.0
    compiles = True
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a frozen base under a small head whose input is the same in every epoch."""
        loop = evidence.loop
        base = evidence.model.frozen if evidence.models else None
        if base is None or base.parameters < LARGE * base.trained or loop.kind != "fit":
            return None
        few = loop.epochs is not None and loop.epochs < FEWEST_EPOCHS
        if few or loop.strategy or evidence.framework.legacy_keras or not _same(evidence):
            return None
        steps = loop.epoch_steps or _seen_steps(evidence)
        if not steps or not loop.batch_size:
            return None
        held = steps * loop.batch_size * base.bytes_per_sample
        if held > MOST_MEMORY * evidence.machine.memory_available:
            return None
        places = (loop.where, evidence.model.compile_where)
        where = tuple(one for one in places if one is not None)
        others = sorted(set(loop.callbacks_given) - OBSERVE)
        part = base.parameters / (base.parameters + base.trained)
        share = percent(part) if part < NEARLY_ALL else f"More than {percent(NEARLY_ALL)}"
        left = f" {others[0]} is given the model that trains." if others else ""
        return self.finding(
            title=f"{share} of the model does not train, and is computed anew in every epoch",
            text=f"The first {base.layers} layers of `{evidence.model.name}` have "
            f"{base.parameters:,} parameters, none of which trains, against {base.trained:,} that "
            f"do{f' ({at(loop.where)})' if loop.where else ''}. What they make of the data takes "
            f"{size(held)} in memory, and is the same in every epoch.{left}",
            bound=None,
            bound_basis="not measured: the head would have to be built and fed",
            where=where,
            advice="Compute their output for all data once, and train the rest of the model on it.",
            snippet=SNIPPET,
            rewritable=None if len(where) == len(places) and not others else False,
            data={
                "layers": base.layers,
                "batch_size": loop.batch_size,
                "arrays": loop.input_kind in ARRAYS,
                "shuffled": _shuffled(evidence),
                "saved": SAVER in loop.callbacks_given,
            },
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Build the two parts ahead of `fit`, and fit the second on what the first makes."""
        fit, compiled = finding.where
        compute_once(script, fit, compiled, finding.data)


def _seen_steps(evidence: Evidence) -> int | None:
    """Steps of an epoch that was seen to end."""
    return None if evidence.between_epochs is None else evidence.between_epochs.epoch_steps


def _same(evidence: Evidence) -> bool:
    """Whether the input is surely the same in every epoch."""
    if evidence.loop.input_kind in ARRAYS:
        return True
    stages = evidence.stages
    return bool(stages and evidence.loop.input_kind == "tf.data") and not any(
        one.stateful_random or one.python or "generator" in one.op for one in stages
    )


def _shuffled(evidence: Evidence) -> bool:
    if evidence.loop.input_kind in ARRAYS:
        return True  # by `fit` itself, unless it is told not to
    return any("shuffle" in one.op for one in evidence.stages)


SNIPPET = """\
frozen = keras.Model(model.inputs, model.layers[3].input)
head = keras.Model(model.layers[3].input, model.outputs)
head.compile(...)
head.fit(frozen.predict(x), y, ...)
"""


NOT_GIVEN = frozenset({"steps_per_epoch", "validation_steps", "sample_weight", "class_weight"})
"""Arguments of `fit` that say something of the data which may not hold of the features."""

LOOPS = (ast.For, ast.AsyncFor, ast.While)

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


def compute_once(script: Script, fit: Site, compiled: Site, data: dict[str, Any]) -> None:
    """Have the `fit` at `fit` train the last layers on features of the first ones.

    `data` says how many `layers` are frozen, whether `fit` is given `arrays`, the
    `batch_size` of a dataset and whether it is `shuffled`, and whether the model is `saved` by a
    callback. Raises `CannotRewrite` where the model
    that is trained is used by others, or what it is given cannot be told.
    """
    call = fit_call(script, fit)
    _check(script, fit, call)
    how = _how_compiled(script, fit, compiled)
    model = ast.unparse(call.func.value)  # type: ignore[attr-defined]
    keras = keras_name(script, fit.file, "keras")
    features = ""
    frozen = script.free_name(fit.file, "frozen", "frozen_part")
    head = script.free_name(fit.file, "head", "trained_part")
    made = script.free_name(fit.file, "frozen_features")
    _validation(script, fit, call, frozen, made)
    if data["arrays"]:
        script.wrap_argument(fit, 0, f"{frozen}.predict({{}})")
    else:
        numpy = script.module_name(fit.file, "numpy", fit)
        features = FEATURES.format(numpy=numpy, frozen=frozen, made=made)
        script.wrap_argument(fit, 0, f"*{made}({{}})")
        script.set_keyword(fit, "batch_size", str(data["batch_size"]))
        if not data["shuffled"]:
            script.set_keyword(fit, "shuffle", "False")
    layers = data["layers"]
    text = PARTS + (SAVES if data.get("saved") else "")
    parts = text.format(
        keras=keras,
        model=model,
        layers=layers,
        frozen=frozen,
        head=head,
        features=features,
        compiled=how,
    )
    script.insert_before(fit, parts)
    script.replace_call(script.receiver(fit), head)


def _check(script: Script, fit: Site, call: ast.Call) -> None:
    tree = script.module(fit.file)
    model = ast.unparse(call.func.value)  # type: ignore[attr-defined]
    if len(call.args) not in (1, 2):
        raise CannotRewrite("the data is not the first argument of `fit`")
    for each in call.keywords:
        if each.arg in NOT_GIVEN:
            raise CannotRewrite(f"`fit` is given {each.arg}")
    if any(isinstance(each, LOOPS) for each in script.around(fit)):
        raise CannotRewrite("`fit` stands in a loop")
    for node in ast.walk(tree):
        used = isinstance(node, ast.Attribute) and node.attr in ("history", "optimizer")
        if used and ast.unparse(node.value) == model:  # type: ignore[attr-defined]
            raise CannotRewrite(f"the file uses {ast.unparse(node)} of the model trained")


def _how_compiled(script: Script, fit: Site, compiled: Site) -> str:
    """The arguments of `compile`, which must mean the same where `fit` is called."""
    call = script.call(compiled)
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "compile" or starred(call):
        raise CannotRewrite("not all that the model is compiled with can be seen")
    if fit.file != compiled.file:
        raise CannotRewrite("the model is compiled in another file")
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if _function(script, fit) is not _function(script, compiled):
        known = _of_module(script.module(fit.file)) | set(dir(builtins))
        local = {name for each in given for name in names_in(each)} - known
        if local:
            raise CannotRewrite(f"the model is compiled with {min(local)}, of another function")
    placed = (script.argument(compiled, index) for index in range(len(call.args)))
    texts = [script.expression(one) for one in placed if one is not None]
    return ", ".join(
        [*texts, *(f"{name}={text}" for name, text in script.call_keywords(compiled).items())]
    )


def _function(script: Script, site: Site) -> ast.stmt | None:
    around = [each for each in script.around(site) if isinstance(each, Function)]
    return around[-1] if around else None


def _of_module(tree: ast.Module) -> set[str]:
    """The names that the top of a file binds."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).partition(".")[0] for one in node.names}
        elif isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
        found |= {one.id for one in assigned(node) if isinstance(one, ast.Name)}
    return found


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
    x, y = (ast.unparse(each) for each in given.value.elts)
    script.set_keyword(fit, "validation_data", f"({frozen}.predict({x}), {y})")
