"""A batch too small to keep the device busy."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping
from typing import Any

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.step import bound_if_saved, gpu_busy, no_faster, probed_s, step_seconds
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import percent, times, worth
from trainperf.model import Equivalence, Evidence, Finding, Probe, Site, Variant, is_taken
from trainperf.rewrite import Script
from trainperf.rewrite.arguments import Wanted, set_at_origin
from trainperf.source.origins import RecordedCall
from trainperf.source.statements import names_in

CPU_LEAST = 1.30
"""Gain in samples per second by doubling the batch from which it is told, on a CPU."""

GPU_LEAST = 1.15
"""The same on a GPU, where idle time confirms it."""

GPU_IDLE_BELOW = 0.70
"""Utilisation below which a GPU has room for more (the line of SageMaker's BatchSize rule)."""

LARGER = (2, 4)
"""How many times as large the batches are that are tried."""

_LINEAR = ("sgd",)
"""Optimizers whose rate is scaled with the batch (Goyal et al., "Accurate, Large Minibatch SGD",
2017); those that divide by the size of the gradient, with its square root (Krizhevsky, "One weird
trick", 2014; Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms",
2022)."""


class BatchSize(Fix):
    """Try a larger batch.

    Why slow: Each step has a cost that does not depend on the batch: starting the kernels,
    updating the weights, the framework's own work. A small batch pays it often, and leaves most of
    a GPU's units without work.
    Changes: Twice the batch takes less than twice the time, but there are half as many updates in
    an epoch: the course of training changes.
    When not: Adjust the learning rate (usually with the batch for SGD, with its square root for
    Adam), and compare the accuracy, not only the speed: very large batches can generalise worse.
    More memory is needed.
    """

    category = "model"
    usual = 1.5
    probed_by = "double_batch"
    equivalence = Equivalence.SEMANTICS

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether it ran so large a batch; what comes once a step is then half as often."""
        twice = finding.samples_per_step == 2
        return twice and no_faster(evidence.times.real, made, made.base_s)

    def look(self, evidence: Evidence) -> Cause | None:
        """Find batches whose size is known, or a step that does twice of them clearly faster."""
        size, made = evidence.loop.batch_size, _chosen(evidence)
        probe = evidence.probes.get("double_batch")
        probe = probe if isinstance(probe, Probe) else None
        if made is None and (probe is None or not size):
            return None  # nobody knows what a step of the loop is made of: samples are no unit
        busy, gpu = gpu_busy(evidence), evidence.device.kind == "GPU"
        idle = gpu and busy is not None and busy < GPU_IDLE_BELOW
        small = probe is not None and probe.low >= (GPU_LEAST if gpu else CPU_LEAST)
        sure = small and (idle or not gpu)
        if sure and probe is not None:  # by the step alone, and what was probed of it
            saved = _step_s(evidence, probe) * (1 - 1 / probe.ratio)
            sure = worth(evidence, bound_if_saved(evidence, saved))
        text = "Each step has a cost that does not depend on the batch."
        if probe is not None:
            text = f"With twice the batch, the step did {times(probe.ratio)} as many samples per "
            text += "second in this run"
            text += f", and the GPU was busy for {percent(busy or 0.0)} of the step." * idle or "."
        most = 2 if made is None else LARGER[-1]
        basis = f"samples per second with {most} times the batch, "
        basis += (
            "which takes as long as one: not probed" if probe is None else "by a probe with twice"
        )
        larger = " or ".join(str(grown * size) for grown in LARGER) if size else "twice as many"
        fit = evidence.loop.where if made is not None and evidence.loop.kind == "fit" else None
        where = (evidence.loop.where if made is None else made[0], fit)
        return Cause(
            title=f"The batch{f' of {size}' if size else ''} "
            f"{'is too small to keep the device busy' if sure else 'may be larger'}",
            text=text,
            saves=Saving(basis, ratio=lambda: _gain(evidence, most, probe), of="all"),
            sure=sure,
            where=tuple(dict.fromkeys(site for site in where if site)),
            advice=f"Try a batch of {larger} samples, with the learning rate adjusted, and compare "
            f"the accuracy reached. {_adjusted(evidence)}",
            snippet=f"batch_size = {2 * size}" if size else "batch_size = 2 * batch_size",
            rewritable=made is not None and made[0].exact,
            data={
                "batch_size": made[1],
                "batch": LARGER[0] * made[1],
                **seen_in_call(evidence, batch_size=made[1]),
            }
            if made
            else {},
            variants=tuple(Variant({"batch": grown * made[1]}, grown) for grown in LARGER)
            if made
            else (),
            samples_per_step=LARGER[0] if made else 1.0,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Multiply the batch size where it is chosen."""
        _enlarge(script, finding.where[0], finding.data, finding.where[1:])


def _step_s(evidence: Evidence, probe: Probe) -> float:
    """Seconds of a step that the probe tells of.

    What is no work of the user's beside the model may come once for each step as well.
    """
    probed, step = probed_s(evidence, probe), step_seconds(evidence)
    if not is_taken(evidence.times.resident_):
        return probed
    beside = 0.0
    if probed < step and is_taken(evidence.lines_):
        beside = sum(line.seconds for line in evidence.lines.beside_model())
    return max(probed, step - beside)


def _gain(evidence: Evidence, most: int, probe: Probe | None) -> float:
    """Return the gain in samples per second with so many times the batch, at most.

    A step takes a + b·n for n samples: a probe with twice as many tells b. What stands around the
    model's step is paid as seldom; but no step is shorter than the input of as many samples.
    """
    times, step, ratio = evidence.times, step_seconds(evidence), float(most)
    around = max(0.0, times.real - step)
    if probe is not None:
        step = _step_s(evidence, probe)
        grows = max(0.0, 2 / probe.ratio - 1)  # b, where a + b is the step as it is
        ratio = most / (1 + (most - 1) * grows)
    saved = min(step, times.real) * (1 - 1 / ratio) + around * (1 - 1 / most)
    least = min(times.real, times.input) if is_taken(times.input_) else 0.0
    return times.real / max(times.real - saved, least, 1e-9)


def _adjusted(evidence: Evidence) -> str:
    """Say how the learning rate is usually scaled with the batch, for the optimizer of this run."""
    try:
        own = evidence.framework.name == "torch" and not evidence.framework.on_other_backend
        optimizer = evidence.torch.optimizer.cls if own else evidence.model.optimizer
    except NotMeasured:
        optimizer = ""
    if not optimizer:
        return "A common rule scales it with the batch for SGD, and with its square root for Adam."
    rule = "with the batch" if optimizer.lower() in _LINEAR else "with the square root of the batch"
    return f"A common rule scales that of {optimizer}, or its whole schedule, {rule}."


NAME = "batch_size"
PLACES = {"batch": 0, "padded_batch": 0, "DataLoader": 1, "fit": 2}
"""Where the batch size stands among the positional arguments of the calls that take it."""

STEPS, STEPS_PLACE = "steps_per_epoch", 12
"""The argument of `fit` with the steps of an epoch, and its place."""

KERAS_DEFAULT = 32
"""The batch size of `fit` without an argument."""

ARRAYS = ("numpy", "tensors")
"""Inputs of `fit` that it batches itself."""


def _chosen(evidence: Evidence) -> tuple[Site, int] | None:
    """Return the call that makes the batches of the loop, and their size; None if not known."""
    loop, stages = evidence.loop, evidence.stages_
    own_loop = evidence.framework.name == "torch" and loop.kind != "fit"
    where, size = loop.where, loop.batch_size
    if own_loop or loop.input_kind == "DataLoader":
        loaders = [loader for loader in evidence.torch.loaders if loader.role == "training"]
        if len(loaders) != 1:
            return None
        where, size = loaders[0].where, loaders[0].batch_size
    elif loop.kind != "fit" or loop.input_kind not in ARRAYS:
        stages = stages if isinstance(stages, tuple) else ()
        batches = [stage for stage in stages if stage.op in PLACES and stage.by_user]
        if not batches or any(stage.op in ("unbatch", "rebatch") for stage in stages):
            return None
        given = batches[-1].arguments.get(NAME)
        where, size = batches[-1].where, given if isinstance(given, int) else None
    return (where, size) if where is not None and size and size > 0 else None


def _enlarge(
    script: Script, site: Site, data: Mapping[str, Any], others: tuple[Site, ...] = ()
) -> None:
    """Make the batches of the call at `site` larger: as large as `batch` of `data`.

    The constant or the default of an option that it takes is changed where the run had that,
    with all else that reads it; what the call is given otherwise, in the call. `others` may be the
    call that trains: an epoch keeps its samples if that is told its steps.
    """
    call = script.call(site)
    called = ast.unparse(call.func).rpartition(".")[2]
    if called not in PLACES:
        raise CannotRewrite(f"the batches are made by {called}")
    batch, now, place = int(data["batch"]), int(data[NAME]), PLACES[called]
    times = batch // now
    given = script.argument(site, place, NAME)
    if called == "fit" and given is None and STEPS in script.call_keywords(site):
        raise CannotRewrite(f"{NAME} is not written out in the call")
    follows = False
    for fit in (site,) if called == "fit" else others:
        follows = follows or _fewer_steps(script, fit, times, own=fit == site)
    text = "" if given is None else script.expression(given)
    if given is not None and text.isdigit():
        script.replace_call(given, str(times * int(text)))
        return
    if given is None or not follows:
        with contextlib.suppress(CannotRewrite):
            seen = RecordedCall.of({**data, "now": now}, NAME, {})
            wanted = Wanted(NAME, str(batch), place)
            set_at_origin(script, site, wanted, seen, shared=True)
            return
    if given is not None:
        script.replace_call(given, f"{times} * {_operand(text)}")
        return
    if called != "fit" or now != KERAS_DEFAULT:
        raise CannotRewrite(f"{NAME} is not written out in the call")
    script.set_keyword(site, NAME, str(batch))


def _operand(text: str) -> str:
    """An expression as it stands beside an operator."""
    node = ast.parse(text, mode="eval").body
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return text if plain else f"({text})"


def _fewer_steps(script: Script, fit: Site, times: int, *, own: bool) -> bool:
    """Divide the steps of an epoch; whether they are worked out, maybe from the batch size.

    Steps that are asked of the dataset follow by themselves, unless `fit` makes its batches `own`.
    """
    given = script.argument(fit, STEPS_PLACE, STEPS) if fit.exact else None
    text = "None" if given is None else script.expression(given)
    if given is None or text == "None":
        return False
    if text.isdigit():
        script.replace_call(given, str(max(1, int(text) // times)))
        return False
    dataset = script.argument(fit, 0, "x")
    module = script.linked(fit.file)
    read = names_in(module.value(script.source(fit.file).expression(given)))
    if own or dataset is None or not read & names_in(ast.parse(script.expression(dataset))):
        script.replace_call(given, f"{_operand(text)} // {times}")
    return True
