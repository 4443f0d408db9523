"""A cheap function called once for every sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import (
    costly,
    function_name,
    input_at_most,
    known,
    opening,
    pipeline_seconds,
    to_try,
    upper,
)
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.tf_data._moves import move_behind
from trainperf.fixes.tf_data.edits.elementwise import elementwise
from trainperf.fixes.tf_data.edits.mapped import mapped
from trainperf.model import Equivalence, Evidence, Finding, Site, Stage, is_taken

if TYPE_CHECKING:
    from trainperf.rewrite import Script

CHEAP = 50e-6
"""Seconds per call below which the call itself (about 10 µs) is a real part of the cost."""

FEWEST = 16
"""Calls per step below which there is little to put together."""

PER_ELEMENT = ("ReadFile", "Decode", "WholeFileReader", "SampleDistortedBoundingBox")
"""Ops, by the start of their names, that take one file or image and no batch of them."""

BATCHING = ("batch", "padded_batch", "ragged_batch")

PASSED = ("prefetch", "shuffle", "repeat")
"""Stages that hand on each sample as it is: what is done to it can wait until behind them."""


class VectorisedMap(Fix):
    """Batch first and map whole batches, when the function is cheap.

    ## Why it is slow
    Each call of a mapped function costs about 10 µs besides its work.
    Scaling one row of numbers takes less than that; called for each sample of a batch,
    the calls cost more than the arithmetic.

    ## What changes
    `.map(f).batch(n)` becomes `.batch(n).map(f)`: one call per batch.
    The function sees one more axis in front. Where it treats each number by itself (casts,
    scales, one-hot codes) it is moved as it is; any other has to be written for it.

    ## When not to
    When the function decodes files or images, which have different sizes.
    When it draws one random number per sample: it would draw one per batch.
    When it reduces over an axis counted from the front.
    """

    category = "input"
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find cheap per-sample maps directly ahead of a batch."""
        chain = evidence.stages
        found = costly(
            evidence, lambda stage: _cheap(stage) and _batch_behind(chain, stage) is not None
        )
        if not found:
            return None
        dearest = found[0]
        bound = evidence.bound_if_input_saves(dearest.seconds_per_step)
        calls = dearest.elements_per_step
        if calls is None or not worth(evidence, bound):
            return None
        text = (
            f"{opening(dearest)} is called {calls:.0f} times a step for "
            f"{ms(dearest.seconds_per_step / calls)} each: {ms(dearest.seconds_per_step)} of "
            f"the {ms(pipeline_seconds(evidence))} the pipeline needs. Much of that is the "
            f"call, not the work."
        )
        return self._finding(evidence, dearest, text, bound)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a map behind its batch that was not timed, if it is called often."""
        chain = evidence.stages
        found = to_try(
            evidence, lambda stage: _movable(stage) and _batch_behind(chain, stage) is not None
        )
        found = tuple(one for one in found if not is_taken(one.seconds_per_step_) or _cheap(one))
        if not found:
            return None
        text = f"{opening(found[0])} is called for every sample of a batch."
        finding = self._finding(evidence, found[0], text, known(input_at_most(evidence)))
        return finding if finding.rewritable else None

    def _finding(
        self, evidence: Evidence, mapped: Stage, text: str, bound: float | None
    ) -> Finding:
        name = function_name(mapped, "function")
        batch = _batch_behind(evidence.stages, mapped)
        where = tuple(one.where for one in (mapped, batch) if one is not None and one.where)
        return self.finding(
            title="A cheap function is called for every sample",
            text=text,
            bound=bound,
            bound_basis=upper(evidence, "the calls cost nothing"),
            where=where,
            # what pads a batch would have its padding scaled as well
            rewritable=batch is not None
            and batch.op == "batch"
            and len(where) == 2
            and all(site.exact for site in where),
            advice="Batch first, and let the function work on whole batches.",
            snippet=(
                f"# {name} now gets batches: one more axis in front\n"
                "dataset = dataset.batch(batch_size)\n"
                f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)"
            ),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Move the map behind the batch, where its function may as well have batches."""
        first, batch = sorted(finding.where, key=lambda site: (site.end_line, site.end_col))
        _check(script, first)
        move_behind(script, first, batch)


def _cheap(stage: Stage) -> bool:
    calls = stage.elements_per_step
    if calls is None or not _movable(stage):
        return False
    return stage.seconds_per_step / calls < CHEAP


def _movable(stage: Stage) -> bool:
    """Whether a map is called often, and may do the same to a batch."""
    calls = stage.elements_per_step
    if stage.op != "map" or (calls is not None and calls < FEWEST):
        return False
    whole = not any(op.startswith(PER_ELEMENT) for op in stage.ops)
    return whole and bool(stage.ops) and not stage.stateful_random and not stage.python


def _batch_behind(chain: tuple[Stage, ...], stage: Stage) -> Stage | None:
    """The batch behind a stage, with nothing between them that sees what is in a sample."""
    behind = (each for each in chain[chain.index(stage) + 1 :] if each.op not in PASSED)
    following = next(behind, None)
    return following if following is not None and following.op in BATCHING else None


def _check(script: Script, site: Site) -> None:
    """Refuse a function that may not do the same to a batch as to each of its samples."""
    module, function = mapped(script, site)
    if function is None or not elementwise(module, function):
        raise CannotRewrite("the function may not do the same to a batch as to each sample")
