"""The words for a step of PyTorch: nothing of another framework, and whose work it is."""

from __future__ import annotations

import re

import pytest

from fixes.case_text import evidence_of
from trainperf.model import Finding, Verdict
from trainperf.verdict import verdict
from trainperf.verdict.steps import input_culprit

BARE = "torch_memmap_gpt | times.real = 0.144"
"""A loop that makes its own batches: its resident time is not known."""


def said(case: str, *findings: Finding) -> Verdict:
    answer = verdict(evidence_of(case), findings)
    assert not re.search(r"[Kk]eras|TensorFlow|tf\.|callback", answer.text)
    return answer


def recompiling(lasting_s: float) -> str:
    return (
        'torch.compiling.recompiling = {"function": "forward", "count": 8, "steps": 60, '
        f'"seconds": 9.0, "lasting_s": {lasting_s}}}'
    )


# What must stay quiet comes first.


def test_what_was_compiled_before_the_steps_were_timed_is_no_verdict() -> None:
    assert said(f"emulated_hidden | probes.compile = 1.0; {recompiling(0.0)}").healthy


def test_a_step_that_is_all_model_is_healthy() -> None:
    answer = said(f"{BARE}; probes.compile = 1.0")
    assert answer.healthy
    assert answer.text.startswith("Healthy: 97 % of each step is forward, backward and optimizer")


@pytest.mark.parametrize(
    ("without", "with_it"),
    [
        # what timing each call costs
        (
            "torch_memmap_gpt | times.real = 0.165; torch.split[rest].seconds = 0.018",
            "torch_memmap_gpt | times.real = 0.144; torch.split[rest].seconds = 0.018",
        ),
        # quick calls by the hundred
        (
            "null_context | times.real = 0.52; torch.split[rest].seconds = 0.085",
            (
                "null_context | times.real = 0.52; torch.split[rest].seconds = 0.085; "
                "torch.split[sync].calls = 2000"
            ),
        ),
        # work of the GPU that timing uncovers
        (
            f"{BARE}; torch.split[rest].seconds = 0.06",
            f"{BARE}; torch.split[rest].seconds = 0.06; device = GPU",
        ),
    ],
)
def test_what_timing_a_step_costs_is_not_the_loops_fault(without: str, with_it: str) -> None:
    assert said(without).bottleneck == "host"
    assert said(with_it).bottleneck != "host"


def test_nothing_is_concluded_where_nothing_was_taken_apart() -> None:
    answer = said('torch_memmap_gpt | torch.split = missing "too few steps"')
    assert answer.bottleneck == "none"
    assert answer.grade == "not examined"
    assert "not how much of that is the model" in answer.text


# What must be said.


@pytest.mark.parametrize(
    "case",
    [
        f"emulated_hidden | {recompiling(0.0675)}",
        f"{BARE}; {recompiling(0.0648)}",
        # what replayed batches save is not the input's: others are compiled
        f"torch_slow_transform | {recompiling(0.0125)}",
    ],
)
def test_compiling_again_is_the_verdict_where_it_takes_the_time(case: str) -> None:
    answer = said(case)
    assert answer.bottleneck == "host"
    assert "`forward` is compiled again and again, which takes 45 %" in answer.text


@pytest.mark.parametrize(
    ("case", "says"),
    [
        # without workers 3 ms of input cost a step 3 ms, whatever it seems to lose
        ("torch_healthy | times.resident = 0.055", "; 42 % of a step is not explained."),
        ("torch_slow_transform | torch.loaders[0].workers = 2", "sharing cores"),
    ],
)
def test_what_batches_made_in_turn_cannot_cost_is_not_put_down_to_them(
    case: str, says: str
) -> None:
    assert says in said(f"{case}; times.input = 0.003").text


def test_an_input_that_each_step_opens_is_named_however_quick_it_is_once_it_is_open() -> None:
    assert "opened anew for each batch" in said("torch_loop_next_iter | times.input = 1e-4").text


def test_parts_that_neighbours_slowed_are_judged_by_their_shares() -> None:
    """The function that calls the model was seen as often, and is not blamed for it."""
    answer = said(f"{BARE}; torch.split[rest].seconds = 0.2")
    assert answer.bottleneck == "host"
    assert answer.text.startswith("Host-bound: 60 % of each step passes outside")
    assert "mostly in" not in answer.text


def test_what_is_lost_against_a_resident_step_is_not_hidden_by_less_work_outside() -> None:
    """The bar shows 74 % that are not explained: 20 % outside the model do not bind the step."""
    answer = said("torch_healthy | times.resident = 0.023; torch.split[rest].seconds = 0.025")
    assert answer.grade == "probable"
    assert "outside" not in answer.text
    mostly = said("torch_healthy | times.resident = 0.071; torch.split[rest].seconds = 0.15")
    assert mostly.text.startswith("Host-bound: 61 % of each step passes outside")


def test_waiting_for_the_device_names_its_call() -> None:
    answer = said(
        'emulated_hidden | torch.syncs = [{"what": "cpu", "where": "train.py:12", "calls": 1.0, '
        '"seconds": 0.0015}, {"what": "item", "where": "train.py:41", "calls": 2.0, '
        '"seconds": 0.03}]'
    )
    assert answer.bottleneck == "host"
    assert answer.text == (
        "Host-bound by synchronisation: 21 % of each step waits for the device, mostly in "
        "`.item()`, train.py:41, 2 times in each step."
    )


def test_a_wait_that_no_call_was_seen_for_is_told_without_one() -> None:
    case = "null_context | torch.split[sync].seconds = 0.09; torch.syncs = []"
    assert said(case).text.endswith("15 % of each step waits for the device.")


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (
            "torch_slow_transform | stages = []",
            "`Pictures.__getitem__`, torch_slow_transform.py:23, with `num_workers=0`",
        ),
        (
            "torch_python_collate | stages[collate].function = null",
            "the samples to be put together into a batch (the `DataLoader` at torch_python_coll",
        ),
        (
            (
                "torch_slow_transform | torch.loaders[0].item = null; "
                'torch.loaders[0].dataset = "ImageFolder"; stages = []'
            ),
            "the items of `ImageFolder` (the `DataLoader` at torch_slow_transform.py:67), with",
        ),
        ("null_context", "its data"),
        # no loader that Keras made
        (
            (
                'torch_loop_keras_torch | loop.input_kind = "PyDataset"; stages = []; '
                'loop.pydataset_item = "data.py:30"'
            ),
            "`__getitem__` of the `PyDataset`, data.py:30",
        ),
    ],
)
def test_the_culprit_of_a_loader_is_the_users_own_code_where_there_is_any(
    case: str, says: str
) -> None:
    assert input_culprit(evidence_of(case)).startswith(says)
