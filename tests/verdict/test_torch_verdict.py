"""The words for a step of PyTorch: nothing of another framework, and whose work it is."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kit.evidence import GPU, SITE, stage
from kit.torch_evidence import (
    CALLS,
    FORWARD_SITE,
    ITEM_SITE,
    LOADER,
    split,
    torch_evidence,
)
from trainperf.model import (
    BetweenEpochs,
    Equivalence,
    Evidence,
    Finding,
    Function,
    FunctionCost,
    Loop,
    Measure,
    Missing,
    Site,
    StepPart,
    SyncPoint,
    Verdict,
)
from trainperf.model.torch.compiling import Compiling, Recompiling
from trainperf.verdict import input_culprit, verdict

BARE = Loop("update", where=Site("train.py", 40, "main"), batch_size=8)
ITEM = Function("__getitem__", "data.py", 30)
MODEL = {"forward": 0.030, "backward": 0.055, "optimizer": 0.010}


def finding(id: str, bound: float | None = 1.8, category: str = "model") -> Finding:
    return Finding(id, category, "Title", "text", bound, "basis", Equivalence.NUMERICS)  # type: ignore[arg-type]


def said(evidence: Evidence, *findings: Finding) -> Verdict:
    answer = verdict(evidence, findings)
    assert not re.search(r"[Kk]eras|TensorFlow|tf\.|callback", answer.text)
    return answer


def bare(**fields: object) -> Evidence:
    """A loop that makes its own batches: 0.1 s a step, its resident time not known."""
    return torch_evidence(resident=None, input=None, loader=None, loop=BARE, **fields)  # type: ignore[arg-type]


def cost(name: str, share: float, line: int = 7) -> FunctionCost:
    return FunctionCost(name, "train.py", line, share, "main", int(share * 100))


# What must stay quiet comes first.


def recompiling(lasting_s: float) -> dict[str, object]:
    seen = Recompiling("forward", 8, 60, 9.0, lasting_s=lasting_s)
    return {"compiling": Compiling(recompiling=seen)}


def test_what_was_compiled_before_the_steps_were_timed_is_no_verdict():
    assert said(torch_evidence(torch=recompiling(0.0))).healthy


@pytest.mark.parametrize("made", [torch_evidence, bare])
def test_compiling_again_is_the_verdict_where_it_takes_the_time(made):
    answer = said(made(torch=recompiling(0.045)))
    assert answer.bottleneck == "host"
    assert "`forward` is compiled again and again, which takes 45 %" in answer.text


def test_what_replayed_batches_save_is_not_the_inputs_where_others_are_compiled():
    waits = {"resident": 0.040, "input": 0.090}
    assert said(torch_evidence(**waits)).bottleneck == "input"
    compiled = said(torch_evidence(torch=recompiling(0.045), **waits))
    assert "Held up by compiling" in compiled.text


def test_a_step_that_is_all_model_is_healthy() -> None:
    answer = said(bare(split=split(**MODEL, rest=0.002)))
    assert answer.healthy
    assert answer.text.startswith("Healthy: 98 % of each step is forward, backward and optimizer")


def test_what_timing_each_call_costs_is_not_the_loops_fault() -> None:
    slowed = split(forward=0.032, backward=0.058, optimizer=0.010, rest=0.014)
    assert said(bare(split=slowed)).healthy


def test_quick_calls_by_the_hundred_are_not_blamed_for_the_time_their_timing_takes() -> None:
    calls = StepPart("sync", 0.004, 400.0)
    slowed = (*split(forward=0.030, backward=0.055, optimizer=0.010, rest=0.016), calls)
    assert said(bare(split=slowed)).healthy


def test_work_of_the_gpu_that_timing_uncovers_is_not_the_loops_fault() -> None:
    uncovered = split(forward=0.032, backward=0.055, optimizer=0.008, rest=0.045)
    assert said(bare(split=uncovered, device=GPU)).healthy


def test_times_that_jump_about_are_not_called_healthy() -> None:
    jumping = Measure(0.1, 30, (0.05, 0.1, 0.15), low=0.04, high=0.16)
    calm = bare(split=split(**MODEL, rest=0.002))
    answer = said(replace(calm, times=replace(calm.times, real_=jumping)))
    assert not answer.healthy
    assert answer.grade == "probable"
    assert answer.text.startswith("Probably model-bound: backward 57 %")
    assert answer.text.endswith("; step times vary by ±60 %.")


def test_a_loop_with_quick_waits_is_not_held_up_by_them() -> None:
    syncs = (SyncPoint("item", SITE, 1.0, 0.002),)
    assert said(torch_evidence(torch={"syncs": syncs})).healthy


def test_nothing_is_concluded_where_nothing_was_taken_apart() -> None:
    answer = said(bare(split=Missing("too few steps")))
    assert answer.bottleneck == "none"
    assert answer.grade == "not examined"
    assert "not how much of that is the model" in answer.text


def test_what_batches_made_in_turn_cannot_cost_is_not_put_down_to_them() -> None:
    """Without workers 1 ms of input costs a step 1 ms, whatever it seems to lose."""
    alone = said(torch_evidence(real=0.100, resident=0.080, input=0.001))
    assert alone.bottleneck == "model"
    assert alone.grade == "probable"
    assert alone.text.endswith("; 20 % of a step is not explained.")
    beside = replace(LOADER, workers=2)
    assert (
        "sharing cores"
        in said(torch_evidence(real=0.1, resident=0.08, input=0.001 * 2, loader=beside)).text
    )
    thread = replace(cost("prefetch", 0.1), thread="worker")
    shared = torch_evidence(real=0.100, resident=0.080, input=0.002, functions=(thread,))
    assert "sharing cores" in said(shared).text


# What must be said.


def test_parts_that_neighbours_slowed_are_judged_by_their_shares() -> None:
    """EMA of the weights in Python, half of each step; all of it took twice as long."""
    slowed = split(forward=0.024, backward=0.024, optimizer=0.032, rest=0.120)
    answer = said(bare(split=slowed, functions=(cost("EMA.update", 0.2, 36),)))
    assert answer.bottleneck == "host"
    assert answer.text.startswith("Host-bound: 60 % of each step passes outside")
    assert "mostly in `EMA.update`, train.py:36" in answer.text


def test_a_function_that_calls_the_model_is_not_blamed_for_it() -> None:
    parts = split(forward=0.020, backward=0.040, optimizer=0.006, rest=0.034)
    calls = replace(CALLS, forward=replace(FORWARD_SITE, function="train_step"))
    own = (cost("Trainer.train_step", 0.35), cost("augment", 0.3))
    assert "`augment`" in said(bare(split=parts, functions=own, calls=calls)).text


def test_waiting_for_the_device_names_its_call() -> None:
    syncs = (
        SyncPoint("cpu", SITE, 1.0, 0.001),
        SyncPoint("item", Site("train.py", 41), 2.0, 0.020, printed=True),
    )
    answer = said(torch_evidence(torch={"syncs": syncs}))
    assert answer.bottleneck == "sync"
    assert answer.text == (
        "Host-bound by synchronisation: 21 % of each step waits for the device, mostly in "
        "`.item()`, train.py:41, 2 times in each step."
    )


def test_a_wait_that_no_call_was_seen_for_is_told_without_one() -> None:
    parts = split(forward=0.03, backward=0.05, optimizer=0.005, sync=0.015)
    assert said(bare(split=parts)).text.endswith("15 % of each step waits for the device.")


def test_what_passes_between_epochs_is_the_verdict_where_its_fix_comes_first() -> None:
    between = BetweenEpochs(5.0, 3, epoch_steps=50, restart_s=4.2)
    answer = said(
        torch_evidence(between_epochs=between), finding("torch_persistent_workers", 2.0, "input")
    )
    assert answer.text == (
        "Held up between epochs: 5.00 s after every 50 steps, 50 % of an epoch, mostly opening "
        "the input again."
    )


@pytest.mark.parametrize(
    ("stages", "loader", "says"),
    [
        ((), LOADER, "`Images.__getitem__`, data.py:30, with `num_workers=0`"),
        (
            (stage("dataset item", 0.05, function=ITEM),),
            replace(LOADER, workers=1),
            "`Images.__getitem__`, data.py:30, in 1 worker process",
        ),
        (
            (stage("collate", 0.05, function=Function("pad", "data.py", 50)),),
            replace(LOADER, workers=4),
            "`pad`, data.py:50, in 4 worker processes",
        ),
        ((stage("collate", 0.05),), LOADER, "put together into a batch (the `DataLoader` at "),
        (
            (stage("dataset item", 0.01), stage("inter-process copy", 0.05)),
            LOADER,
            "batches to come over from the worker processes (the `DataLoader` at train.py:12)",
        ),
        (
            (),
            replace(LOADER, item=None, dataset="ImageFolder"),
            "the items of `ImageFolder` (the `DataLoader` at train.py:8), with `num_workers=0`",
        ),
        ((), None, "its data"),
    ],
)
def test_the_culprit_of_a_loader_is_the_users_own_code_where_there_is_any(
    stages: tuple[object, ...], loader: object, says: str
) -> None:
    found = torch_evidence(stages_=stages, loader=loader)  # type: ignore[arg-type]
    assert says in input_culprit(found)
    assert ITEM_SITE.line == ITEM.line


def test_a_pydataset_of_keras_is_named_and_no_loader_that_keras_made() -> None:
    loop = Loop("fit", where=SITE, input_kind="PyDataset", pydataset_item=ITEM_SITE)
    answer = said(torch_evidence(real=0.1, resident=0.02, input=0.08, loop=loop))
    assert "waits for `__getitem__` of the `PyDataset`, " in answer.text
    assert "DataLoader" not in answer.text


def test_what_is_lost_against_a_resident_step_is_not_hidden_by_less_work_outside() -> None:
    """The bar shows 74 % that are not explained: 25 % outside the model do not bind the step."""
    parts = split(input=0.074, forward=0.001, rest=0.025)
    answer = said(torch_evidence(real=0.1, resident=0.026, input=0.0001, split=parts))
    assert answer.grade == "probable"
    assert "25 %" not in answer.text
    mostly_outside = split(input=0.02, forward=0.02, rest=0.06)
    answer = said(torch_evidence(real=0.1, resident=0.08, input=0.001, split=mostly_outside))
    assert answer.text.startswith("Host-bound: 60 % of each step passes outside")
