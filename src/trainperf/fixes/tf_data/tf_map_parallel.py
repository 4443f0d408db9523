"""A serial `Dataset.map`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import (
    cores,
    costly,
    input_at_most,
    known,
    opening,
    pipeline_seconds,
    saved_on,
    sites,
    to_try,
    upper,
    waits,
)
from trainperf.fixes.common.words import ms, worth
from trainperf.model import Equivalence, Evidence, Finding, Site, Stage
from trainperf.rewrite import Script


class MapParallel(Fix):
    """Run `Dataset.map` on several cores.

    ## Why it is slow
    Without `num_parallel_calls` the function runs for one element after the other.
    The pipeline uses one core; the others and the model wait.
    TensorFlow 2.13 and later parallelise a `map` by themselves, but not one whose
    function holds state: random ops, tables, variables.

    ## What changes
    `num_parallel_calls=tf.data.AUTOTUNE` is added: tf.data chooses how many run at once.
    Elements still come out in order. Where the input hardly uses a core while it is waited
    for, 16 at once on 16 threads are tried as well: by itself tf.data has one for each core.
    Random ops in the function are drawn in another order, so augmented samples differ
    from those of the same seed before.

    ## When not to
    When the function is Python (`tf.py_function`): `tf_py_function` is about that.
    When the function reads and writes a variable and the order of calls matters.
    """

    category = "input"
    usual = 1.8
    equivalence = Equivalence.EXACT

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find maps that run one call at a time while the model waits for them."""
        width = cores(evidence)
        serial = costly(evidence, lambda stage: runs_serially(stage) and not stage.python)
        if not serial or width < 2:
            return None
        seconds = sum(stage.seconds_per_step for stage in serial)
        bound = evidence.bound_if_input_saves(saved_on(width, seconds))
        if not worth(evidence, bound):
            return None
        dearest = serial[0]
        text = (
            f"{opening(dearest)} runs on one core and takes {ms(dearest.seconds_per_step)} of the "
            f"{ms(pipeline_seconds(evidence))} the pipeline needs for a step; "
            f"{width} cores are there."
        )
        if len(serial) > 1:
            text += f" {len(serial)} such maps take {ms(seconds)} together."
        if any(stage.stateful_random for stage in serial):
            text += " tf.data leaves it serial because it draws random numbers."
        basis = upper(evidence, f"the serial maps spread over {width} cores")
        if waits(evidence):
            bound = evidence.bound_if_input_saves(saved_on(max(width, WAITING_CALLS), seconds))
        return self._finding(serial, text, bound, basis, choices(evidence))

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try serial maps in parallel that were not timed, and more calls of others.

        The others are those that wait, and that tf.data gives as many calls as cores.
        """
        alone = cores(evidence) < 2  # more calls at once only help what waits
        serial = to_try(
            evidence, lambda stage: runs_serially(stage) and not stage.python and not alone
        )
        found = serial
        if not serial and waits(evidence):
            found = to_try(evidence, _tuned)
        if not found:
            return None
        how = "runs for one element after the other" if serial else "waits, on as many threads"
        text = f"{opening(found[0])} {how}{'' if serial else ' as there are cores'}."
        most, basis = known(input_at_most(evidence)), upper(evidence, "the maps cost nothing")
        data = choices(evidence) if serial else {"calls": WAITING_CALLS}
        return self._finding(found, text, most, basis, data)

    def _finding(
        self,
        serial: tuple[Stage, ...],
        text: str,
        bound: float | None,
        basis: str,
        data: dict[str, Any],
    ) -> Finding:
        dearest = serial[0]
        other_order = any(stage.stateful_random for stage in serial)
        return self.finding(
            title="A `map` runs on few cores" if "calls" in data else "A `map` runs on one core",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=sites(serial),
            advice="Give `map` `num_parallel_calls=tf.data.AUTOTUNE`"
            + (", or more calls, and threads for them." if data else "."),
            snippet=_snippet(dearest),
            equivalence=Equivalence.NUMERICS if other_order else Equivalence.EXACT,
            data=data,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give each map `num_parallel_calls`: AUTOTUNE, or the number in the data."""
        run_in_parallel(script, finding.where, finding.data)


def _tuned(stage: Stage) -> bool:
    """Whether tf.data chooses how many calls there are."""
    tuned = stage.arguments.get("num_parallel_calls") == -1 or stage.parallelised_by_default
    return stage.op == "map" and tuned and not stage.python


def _snippet(stage: Stage) -> str:
    name = stage.function.name if stage.function else ""
    if not name.isidentifier():
        return "dataset = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)"
    return f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)"


AUTOTUNE = "AUTOTUNE"
WAITING_CALLS = 16
"""Calls at once of a function that waits, on as many threads: tf.data has but one for each core.

Steps of 16 waits of 4 ms on two cores took 77 ms in turn, 36 ms with AUTOTUNE or with 16 calls,
13 to 23 ms with 16 calls on 16 threads (TensorFlow 2.21, a busy machine).
"""

OPTIONS = "waiting"
"""The name of the `tf.data.Options` that give it the threads."""


def runs_serially(stage: Stage) -> bool:
    """Whether a map runs its function for one element after the other."""
    return (
        stage.op == "map"
        and stage.arguments.get("num_parallel_calls") is None
        and not stage.parallelised_by_default
    )


def choices(evidence: Evidence) -> dict[str, Any]:
    """The numbers of calls to choose from: a second one where the input waits."""
    if not waits(evidence):
        return {}
    return {"variants": [{"calls": WAITING_CALLS}, {"calls": AUTOTUNE}]}  # likeliest first


def run_in_parallel(script: Script, maps: Sequence[Site], data: dict[str, Any]) -> None:
    """Give each map `num_parallel_calls`: AUTOTUNE, or the number "calls" in the data."""
    calls = data.get("calls", AUTOTUNE)
    if calls != AUTOTUNE:
        last = max(maps, key=lambda site: (site.end_line, site.end_col))
        _give_threads(script, last, calls)
    for site in maps:
        value = str(calls)
        if calls == AUTOTUNE:
            value = f"{script.module_name(site.file, 'tensorflow')}.data.AUTOTUNE"
        script.set_keyword(site, "num_parallel_calls", value, position=1)


def _give_threads(script: Script, site: Site, threads: int) -> None:
    """Give tf.data threads of its own, by options set on the call at `site`."""
    options = script.free_name(site.file, OPTIONS)
    tf = script.module_name(site.file, "tensorflow", site)
    script.insert_before(
        site,
        f"{options} = {tf}.data.Options()\n{options}.threading.private_threadpool_size = {threads}",
    )
    script.append_call(site, f".with_options({options})")
