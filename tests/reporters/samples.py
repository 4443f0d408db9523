"""Diagnoses as they come, by name: one per kind of report."""

from __future__ import annotations

from dataclasses import replace

from reporters.samples_observed import (
    DIFF,
    FAILED,
    HEALTHY,
    INPUT_BOUND,
    PARALLEL_MAP,
    PARTIAL,
    TWO_GPUS,
)
from reporters.samples_parallel import PARALLEL, hostile
from reporters.samples_torch import TORCH
from reporters.samples_tried import (
    ALL_OUTCOMES,
    HEALTHY_TRIED,
    KEPT_MAP,
    NONE_POSSIBLE,
    NOT_REPRODUCIBLE,
    NOTHING_KEPT,
    ONE_AFTER_ANOTHER,
    ONE_KEPT,
    OUT_OF_BUDGET,
    TRIALS_INTERRUPTED,
    TRIED,
)
from trainperf.model import (
    CallbackCost,
    Device,
    Ending,
    Framework,
    Function,
    FunctionCost,
    Loop,
    NotTaken,
    Outcome,
    Patch,
    ReportedStage,
    Site,
    Stack,
    Trial,
    Trials,
    Verdict,
)

NASTY = "[red]x[/red]\x1b[31mred\x1b[0m\x07\u202e[/] :smile: \udce9"

HOSTILE = replace(
    INPUT_BOUND,
    parallel=hostile(NASTY),
    script=NASTY,
    cwd=f"/tmp/{NASTY}",
    ending=Ending.FAILED,
    framework=Framework("tensorflow", NASTY, keras=NASTY),
    device=Device("GPU", NASTY, 1),
    loop=Loop("fit", where=Site(NASTY, 3, NASTY), strategy=NASTY, replicas=2),
    verdict=Verdict("input", f"Input-bound: waits for `{NASTY}`\n\n\t[bold]."),
    stages=(
        ReportedStage(NASTY, Site("a/" * 120 + NASTY, 3), 0.09, 0.9, Function(NASTY), NASTY),
        ReportedStage("データ" * 30, None, 0.01, 0.1, Function("関数" * 30)),
    ),
    callbacks=(CallbackCost(NASTY, 0.1, 3, where=Site(NASTY, 9)),),
    functions=(FunctionCost(NASTY, NASTY, 3, 0.4, "main", 9, NASTY),),
    findings=(
        replace(
            PARALLEL_MAP,
            title=NASTY,
            text=NASTY * 9,
            bound_basis=NASTY,
            where=(Site(NASTY, 3, NASTY),) * 9,
            advice=f"{NASTY}\n\n{NASTY}",
            snippet=f"print('{NASTY}')\n\tx = 1",
        ),
    ),
    patch=Patch(DIFF, (NASTY,), skipped=(NotTaken(NASTY, NASTY),), environment={"TF_NAME": NASTY}),
    trials=(
        replace(KEPT_MAP, parity=NASTY, bound=None),
        Trial(NASTY, Outcome.FAILED, NASTY * 3, parity=NASTY, bound=1.5),
        Trial("関数" * 30, Outcome.NOT_TRIED, ""),
        Trial(NASTY * 2, Outcome.SLOWER, NASTY, 0.5, 0.4, 0.6, 9, 90, NASTY * 9),
    ),
    trying=Trials("one after another", mode_reason=NASTY, reason=NASTY, budget_needed_s=1e6),
    stack=Stack((NASTY, "tf_map_parallel"), 1e4, 1e3, 1e5, 1, 1, 0.1, 1.0, 1e-4),
    not_measured=(NotTaken(NASTY, NASTY),),
    notes=(NASTY, "x" * 300),
    output_tail=f"\x1b]0;title\x07{NASTY}\n" + "y" * 300 + "\n 1/92 …\r 2/92 \b\b\n",
)

SAMPLES = {
    "input_bound": INPUT_BOUND,
    "healthy": HEALTHY,
    "failed": FAILED,
    "two_gpus": TWO_GPUS,
    "partial": PARTIAL,
    "tried": TRIED,
    "one_kept": ONE_KEPT,
    "nothing_kept": NOTHING_KEPT,
    "healthy_tried": HEALTHY_TRIED,
    "all_outcomes": ALL_OUTCOMES,
    "one_after_another": ONE_AFTER_ANOTHER,
    "not_reproducible": NOT_REPRODUCIBLE,
    "out_of_budget": OUT_OF_BUDGET,
    "trials_interrupted": TRIALS_INTERRUPTED,
    "none_possible": NONE_POSSIBLE,
    **TORCH,
    **PARALLEL,
    "hostile": HOSTILE,
}
