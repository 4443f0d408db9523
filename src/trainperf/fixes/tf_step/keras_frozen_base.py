"""A large part of a model that does not train, computed anew in every epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, percent
from trainperf.fixes.tf_step._frozen_edits import compute_once
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.model.words import size

if TYPE_CHECKING:
    from trainperf.rewrite import Script

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
