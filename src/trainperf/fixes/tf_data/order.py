"""Stages of a pipeline that stand in the wrong order."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import pairwise

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import (
    function_name,
    is_dear,
    label,
    opening,
    restarted_epoch,
    suitable,
    takes,
    upper,
)
from trainperf.fixes.common.words import at, if_measured, ms
from trainperf.fixes.findings import shown_findings
from trainperf.fixes.tf_data.cache import TfCache
from trainperf.model import Equivalence, Evidence, Finding, Site, Stage, is_taken
from trainperf.rewrite import Script
from trainperf.source.statements import root

LONG_FILL = 20
"""Steps a fill must cost to be spoken of: fewer drown in what an epoch's start costs anyway."""

CHEAP = 50e-6
"""Seconds per call below which the call itself (about 10 µs) is a real part of the cost."""

FEWEST = 16
"""Calls per step below which there is little to put together."""

PER_ELEMENT = ("ReadFile", "Decode", "WholeFileReader", "SampleDistortedBoundingBox")
"""Ops, by the start of their names, that take one file or image and no batch of them."""

ELEMENTWISE = frozenset({
    "Abs", "Add", "AddV2", "Cast", "Ceil", "ClipByValue", "Const", "Cos", "Div", "DivNoNan",
    "Elu", "Equal", "Exp", "ExpandDims", "Floor", "FloorDiv", "FloorMod", "Greater",
    "GreaterEqual", "Identity", "Less", "LessEqual", "Log", "Log1p", "LogicalAnd", "LogicalNot",
    "LogicalOr", "Maximum", "Minimum", "Mul", "Neg", "NoOp", "NotEqual", "OneHot",
    "PartitionedCall", "Placeholder", "Pow", "RealDiv", "Reciprocal", "Relu", "Round", "Rsqrt",
    "SelectV2", "Sigmoid", "Sign", "Sin", "Sqrt", "Square", "SquaredDifference", "Sub", "Tanh",
})  # fmt: skip
"""Ops that treat each number by itself, whatever axes stand in front, or put an axis in: that at a
wrong place the model takes no more."""

BATCHING = ("batch", "padded_batch", "ragged_batch")
PASSED = ("prefetch", "shuffle", "repeat")
"""Stages that hand on each sample as it is: what is done to it can wait until behind them."""


class TfShuffleBuffer(Fix):
    """Shuffle what is cheap to hold: file names or records, not decoded samples.

    Why slow: `shuffle(k)` reads k elements before it hands out the first, in every epoch. Where
    each of them is a decoded image, the model waits for k decodes, and memory holds k images.
    Changes: `.map(load).shuffle(k)` becomes `.shuffle(k).map(load)`: the buffer holds names or
    records. The order of samples stays the same, for the same seed. Where another stage stands
    before the shuffle, a smaller buffer fills sooner, but mixes less.
    When not: When the data lies sorted in a few files and a small buffer would not mix it. When
    the decoded samples are cached before the shuffle: then filling is cheap.
    """

    equivalence = Equivalence.SEMANTICS
    between_epochs = True

    def look(self, evidence: Evidence) -> Cause | None:
        """Find the buffer that takes longest to fill, unless a cache ahead of it is proposed."""
        fills = [
            (shuffle.first_s - before.first_s, shuffle, before)
            for before, shuffle in pairwise(evidence.stages)
            if shuffle.op == "shuffle"
            and shuffle.by_user
            and shuffle.first_s is not None
            and before.first_s is not None
        ]
        if not fills:
            return None
        fill, shuffle, before = max(fills, key=lambda fill: fill[0])
        real, steps = evidence.times.real, evidence.loop.epoch_steps
        between = evidence.between_epochs
        if steps is None:
            return None
        epoch = restarted_epoch(evidence)  # trials hold it whole: a buffer is filled once in each
        if between is not None and between.restart_s is not None:
            fill = min(fill, between.restart_s)
        long = fill >= LONG_FILL * real
        if not (long or epoch):
            return None
        made = before.cumulative if is_taken(before.cumulative_) else 0.0  # for a step
        passed = _passed(evidence.stages, shuffle)
        movable = bool(passed) and all(stage.by_user and stage.where for stage in passed)
        stages = (shuffle, *passed) if movable else (shuffle,)
        where = tuple(stage.where for stage in stages if stage.where is not None)
        advice = "Shuffle file names or records before they are read; make this buffer smaller."
        equivalence = Equivalence.SEMANTICS
        if movable:
            random = any(stage.stateful_random for stage in passed)
            equivalence = Equivalence.NUMERICS if random else Equivalence.EXACT
            advice = "Put `shuffle` before what makes its elements."
        buffer = shuffle.arguments.get("buffer_size")
        of = f" of {buffer} elements" if isinstance(buffer, int) and buffer > 0 else ""
        return Cause(
            title="The shuffle buffer takes long to fill",
            text=f"`shuffle` ({at(shuffle.where)}) fills a buffer{of} for {ms(fill)} before its "
            f"first element: as long as {fill / real:.0f} steps, and an epoch has {steps}. "
            f"Each element goes through {label(before)} first.",
            saves=Saving(
                "filling costs nothing, once per epoch: its elements are made during the steps",
                ratio=(fill + steps * real) / (steps * max(real, made)),
                of="all",
            ),
            where=where,
            advice=advice,
            snippet="dataset = files.shuffle(number_of_files)  # names are cheap to hold\n"
            "dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)",
            # behind a cache that is proposed as well, filling is cheap
            sure=long and not shown_findings(evidence, among=[TfCache()]),
            equivalence=equivalence,
            rewritable=movable and all(site.exact for site in where),
            slices=epoch or "steps",
        )

    def clashes(self, finding: Finding, other: Finding) -> str:
        """A shuffle that was moved ahead of a cache would be frozen by it."""
        return "a cache behind the shuffle would keep one order" if other.id == "tf_cache" else ""

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Move the maps before the shuffle behind it."""
        _move_behind_last(script, finding)


def _passed(stages: tuple[Stage, ...], shuffle: Stage) -> list[Stage]:
    """The maps right before a shuffle, the nearest first, with what prefetches between them."""
    passed: list[Stage] = []
    for stage in reversed(stages[: stages.index(shuffle)]):
        if stage.op not in ("map", "prefetch"):
            break
        passed.append(stage)
    while passed and passed[-1].op != "map":
        passed.pop()
    return passed


class TfVectorisedMap(Fix):
    """Batch first and map whole batches, when the function is cheap.

    Why slow: Each call of a mapped function costs about 10 µs besides its work. Scaling one row of
    numbers takes less: called for each sample, the calls cost more than the arithmetic.
    Changes: `.map(f).batch(n)` becomes `.batch(n).map(f)`: one call per batch. The function sees
    one more axis in front. Where its operations treat each number by itself (casts, scales,
    one-hot codes) it is moved as it is; any other has to be written for it.
    When not: When the function decodes files or images, which have different sizes. When it draws
    one random number per sample: it would draw one per batch. When it reduces over an axis counted
    from the front.
    """

    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find cheap per-sample maps directly ahead of a batch."""
        found = suitable(
            evidence,
            lambda stage: _is_cheap(stage) and _batch_behind(evidence.stages, stage) is not None,
        )
        if not found:
            return None
        stage, calls = found[0], found[0].elements_per_step
        batch = _batch_behind(evidence.stages, stage)
        assert batch is not None
        name = function_name(stage, "function")
        where = tuple(call.where for call in (stage, batch) if call.where)
        every = if_measured(
            lambda: (
                f" {calls:.0f} times a step, {ms(stage.seconds_per_step / calls)} each"
                if calls
                else ""
            )
        )
        return Cause(
            title="A cheap function is called for every sample",
            text=f"{opening(stage)} is called for every sample{every}{takes(evidence, [stage])}."
            + (" Much of that is the call, not the work." if every else ""),
            saves=Saving(
                upper(evidence, "the calls cost nothing"),
                lambda: stage.seconds_per_step,
                of="input",
            ),
            where=where,
            # what pads a batch would have its padding scaled as well
            rewritable=batch.op == "batch"
            and ELEMENTWISE.issuperset(stage.ops)
            and len(where) == 2
            and all(site.exact for site in where),
            snippet=f"# {name} now gets batches: one more axis in front\n"
            "dataset = dataset.batch(batch_size)\n"
            f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)",
            sure=is_dear(evidence, stage),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Move the map behind the batch, where its function may as well have batches."""
        _move_behind_last(script, finding)


def _is_cheap(stage: Stage) -> bool:
    """Whether a map is called often, takes little each time, and may do the same to a batch."""
    calls = stage.elements_per_step
    if stage.op != "map" or not stage.ops or stage.stateful_random or stage.python:
        return False
    if any(op.startswith(PER_ELEMENT) for op in stage.ops) or (
        calls is not None and calls < FEWEST
    ):
        return False
    if not is_taken(stage.seconds_per_step_):
        return True
    return calls is not None and stage.seconds_per_step / calls < CHEAP


def _batch_behind(chain: tuple[Stage, ...], stage: Stage) -> Stage | None:
    """The batch behind a stage, with nothing between them that sees what is in a sample."""
    behind = (other for other in chain[chain.index(stage) + 1 :] if other.op not in PASSED)
    following = next(behind, None)
    return following if following is not None and following.op in BATCHING else None


def _move_behind_last(script: Script, finding: Finding) -> None:
    """Move the calls of a finding behind the last of them."""
    *passed, last = calls = sorted(finding.where, key=lambda site: (site.end_line, site.end_col))
    if any(script.around(site)[-1] is not script.around(last)[-1] for site in passed):
        _check_one_name(script, calls)
    for site in passed:
        script.move_call_behind(site, last)


def _check_one_name(script: Script, calls: Sequence[Site]) -> None:
    """Refuse all but statements `x = x.a()` of one name in one block, and nothing else between.

    What is taken of it between the calls, a set for validation say, would be another, and no
    trial looks at that.
    """
    around = [script.around(site) for site in calls]
    parent = around[0][-2] if len(around[0]) > 1 else script.module(calls[0].file)
    lists = [value for _, value in ast.iter_fields(parent) if isinstance(value, list)]
    block = next(body for body in lists if around[0][-1] in body)
    places = [block.index(within[-1]) for within in around if within[-1] in block]
    between = block[min(places) : max(places) + 1]
    assigned = [node for node in between if isinstance(node, ast.Assign)]
    names = {ast.unparse(target) for node in assigned for target in node.targets}
    names |= {root(node.value) for node in assigned}
    if len(places) < len(calls) or len(assigned) < len(between) or len(names) > 1:
        raise CannotRewrite("the statements do not reassign the same name in one block")
