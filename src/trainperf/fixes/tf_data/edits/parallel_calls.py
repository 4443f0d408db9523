"""`num_parallel_calls` for maps, and threads of their own for those that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainperf.fixes.common.pipeline import waits
from trainperf.model import Evidence, Site, Stage

if TYPE_CHECKING:
    from trainperf.rewrite import Script

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
