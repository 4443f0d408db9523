"""Stages of a pipeline that make one element, or read one file, after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.pipeline import (
    cores,
    function_name,
    is_dear,
    opening,
    saved_on,
    seconds_of,
    sites,
    suitable,
    takes,
    upper,
    waits,
    worker_said,
)
from trainperf.fixes.tf_data._source import LOAD, mapped
from trainperf.model import Equivalence, Evidence, Finding, Site, Stage, Variant
from trainperf.rewrite import Script
from trainperf.source.bodies import function_of, python_op
from trainperf.source.effects import changes_shared
from trainperf.source.iterations import arguments
from trainperf.source.scopes import FUNCTIONS

AUTOTUNE = "AUTOTUNE"
WAITING_CALLS = 16
"""Calls at once of a function that waits, on as many threads: tf.data has but one for each core.

Steps of 16 waits of 4 ms on two cores took 77 ms in turn, 36 ms with AUTOTUNE or with 16 calls,
13 to 23 ms with 16 calls on 16 threads (TensorFlow 2.21, a busy machine).
"""

FEWEST_READS = 2
"""On one core, too, one file can be waited for while another is read."""


class TfMapParallel(Fix):
    """Run `Dataset.map` on several cores.

    Why slow: Without `num_parallel_calls` the function runs for one element after the other, on
    one core. TensorFlow 2.13 and later parallelise a `map` by themselves, but not one whose
    function holds state: random ops, tables, variables.
    Changes: `num_parallel_calls=tf.data.AUTOTUNE` is added; elements still come out in order.
    Where the input hardly uses a core while it is waited for, 16 at once on 16 threads are tried
    as well. Random ops in the function are drawn in another order.
    When not: When the function is Python (`tf.py_function`): `tf_py_function` is about that. When
    the function reads and writes a variable and the order of calls matters.
    """

    usual = 1.8

    def look(self, evidence: Evidence) -> Cause | None:
        """Find maps that run one call at a time, where there are cores for more, or they wait."""
        waiting = waits(evidence)
        width = max(1, cores(evidence), WAITING_CALLS if waiting else 0)
        found = suitable(evidence, lambda stage: _serial(stage) and not stage.python)
        if not found or width < 2:
            return None
        dearest = found[0]
        random = any(stage.stateful_random for stage in found)
        text = f"{opening(dearest)} runs on one core{takes(evidence, found)}; "
        text += f"{cores(evidence)} cores are there."
        if random:
            text += " tf.data leaves it serial because it draws random numbers."
        name = function_name(dearest, "function")
        return Cause(
            title="A `map` runs on one core",
            text=text,
            saves=Saving(
                upper(evidence, f"the serial maps spread over {width} calls at once"),
                lambda: saved_on(width, seconds_of(found)),
                of="input",
            ),
            where=sites(found),
            advice="Give `map` `num_parallel_calls=tf.data.AUTOTUNE`"
            + (", or more calls, and threads for them." if waiting else "."),
            snippet=f"dataset = dataset.map({name}, num_parallel_calls=tf.data.AUTOTUNE)",
            sure=is_dear(evidence, dearest),
            equivalence=Equivalence.NUMERICS if random else Equivalence.EXACT,
            variants=_choices(evidence),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give each map `num_parallel_calls`: AUTOTUNE, or the number in the data."""
        run_in_parallel(script, finding.where, finding.data)


class TfInterleaveParallel(Fix):
    """Read the files of `Dataset.interleave` at the same time.

    Why slow: Without `num_parallel_calls`, `interleave` takes turns between its files but reads
    one block at a time. Each wait for the disk or the network is a wait of the model.
    Changes: `num_parallel_calls=tf.data.AUTOTUNE` is added: the files of a cycle are read at once.
    With a `cycle_length` in the call the order of elements stays; without one, tf.data chooses
    another.
    When not: When a spinning disk holds the files: it reads one after the other faster. When
    memory is short: each open file holds a buffer.
    """

    usual = 1.3

    def look(self, evidence: Evidence) -> Cause | None:
        """Find interleaves that read one file at a time; a cycle of one file was asked for."""
        found = suitable(
            evidence, lambda stage: _serial(stage, "interleave") and _cycle(stage) != 1
        )
        if not found:
            return None
        dearest = found[0]
        cycle = _cycle(dearest)
        width = cores(evidence)
        if cycle is not None:
            width = cycle if waits(evidence) else min(cycle, width)
        in_order = cycle is not None and not dearest.stateful_random and not dearest.python
        return Cause(
            title="Files are read one at a time",
            text=f"{opening(dearest)} reads one file at a time{takes(evidence, found[:1])}.",
            saves=Saving(
                upper(evidence, f"{max(FEWEST_READS, width)} files read at once"),
                lambda: saved_on(max(FEWEST_READS, width), dearest.seconds_per_step),
                of="input",
            ),
            where=sites((dearest,)),
            advice="Give `interleave` `num_parallel_calls=tf.data.AUTOTUNE`.",
            snippet="dataset = files.interleave(\n"
            f"    {function_name(dearest, 'tf.data.TFRecordDataset')},\n"
            f"    cycle_length={cycle or width},\n"
            "    num_parallel_calls=tf.data.AUTOTUNE,\n"
            ")",
            sure=width > 1 and not dearest.python and is_dear(evidence, dearest),
            equivalence=Equivalence.EXACT if in_order else Equivalence.NUMERICS,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Add `num_parallel_calls` to the interleave."""
        for site in finding.where:
            tf = script.module_name(site.file, "tensorflow")
            script.set_keyword(site, "num_parallel_calls", f"{tf}.data.AUTOTUNE", position=3)


class TfPyFunction(Fix):
    """Run `tf.py_function` for several elements at once, or replace it by TensorFlow ops.

    Why slow: `tf.py_function` and `tf.numpy_function` call back into Python, under its lock.
    However many calls `map` allows, one runs Python at a time, and the training loop's own waits
    for it too.
    Changes: `num_parallel_calls` is added where a `map` has none: reading files, Pillow, OpenCV
    and large NumPy calls let go of the lock. What remains goes away where the function is written
    with TensorFlow ops (`tf.io`, `tf.image`, `tf.strings`); these round differently.
    When not: When the function keeps something from one call to the next, or is not made for
    threads. When no TensorFlow op does it: make the data once, write it as TFRecords, read those.
    """

    equivalence = Equivalence.NUMERICS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find Python inside the pipeline."""
        found = suitable(evidence, lambda stage: stage.python and stage.op != "from_generator")
        if not found:
            return None
        dearest = found[0]
        serial = sites(stage for stage in found if _serial(stage))
        return Cause(
            title="Python runs inside the pipeline",
            text=f"{opening(dearest)} is Python inside the pipeline, one call at a time"
            f"{takes(evidence, found)}.{worker_said(evidence)}",
            saves=Saving("the Python stages cost nothing", lambda: seconds_of(found), of="input"),
            where=serial or sites(found),
            advice="Write the function with TensorFlow ops, or prepare its results once.",
            snippet=f"{LOAD}dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)",
            sure=is_dear(evidence, dearest),
            variants=_choices(evidence) if serial else (),
            rewritable=bool(serial) and all(site.exact for site in serial),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give each serial map with Python in it `num_parallel_calls`."""
        for site in finding.where:
            _check_apart(script, site)
        run_in_parallel(script, finding.where, finding.data)


def _check_apart(script: Script, site: Site) -> None:
    """Refuse Python of the file that keeps something from one element to the next."""
    module, function = mapped(script, site)
    called = None if function is None else python_op(module, function)
    inner = function_of(module, called.args[0]) if called and called.args else None
    if isinstance(inner, FUNCTIONS):
        changed = changes_shared(module, inner.body, arguments(inner))
        if changed:
            raise CannotRewrite(f"the elements are not made apart: {changed}")


def _serial(stage: Stage, op: str = "map") -> bool:
    """Whether a stage runs its function for one element after the other."""
    given = stage.arguments.get("num_parallel_calls")
    return stage.op == op and given is None and not stage.parallelised_by_default


def _cycle(stage: Stage) -> int | None:
    """The cycle length given in the call; None where tf.data chooses it."""
    given = stage.arguments.get("cycle_length")
    return given if isinstance(given, int) and given > 0 else None


def _choices(evidence: Evidence) -> tuple[Variant, ...]:
    """The numbers of calls to choose from: a second one where the input waits."""
    if not waits(evidence):
        return ()
    return Variant({"calls": WAITING_CALLS}), Variant({"calls": AUTOTUNE})  # likeliest first


def run_in_parallel(script: Script, maps: Sequence[Site], data: dict[str, Any]) -> None:
    """Give each map `num_parallel_calls`: AUTOTUNE, or the number "calls", with its threads."""
    calls = data.get("calls", AUTOTUNE)
    if calls != AUTOTUNE:
        last = max(maps, key=lambda site: (site.end_line, site.end_col))
        options = script.free_name(last.file, "waiting")
        tf = script.module_name(last.file, "tensorflow", last)
        made = f"{options} = {tf}.data.Options()"
        script.insert_before(last, f"{made}\n{options}.threading.private_threadpool_size = {calls}")
        script.append_call(last, f".with_options({options})")
    for site in maps:
        value = str(calls)
        if calls == AUTOTUNE:
            value = f"{script.module_name(site.file, 'tensorflow')}.data.AUTOTUNE"
        script.set_keyword(site, "num_parallel_calls", value, position=1)
