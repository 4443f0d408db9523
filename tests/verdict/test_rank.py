from dataclasses import replace

import pytest

from kit.evidence import SITE, evidence, measure, probe, stage
from trainperf.fixes import detect_all
from trainperf.model import (
    BetweenEpochs,
    CallbackCost,
    Equivalence,
    Finding,
    Function,
    FunctionCost,
    Retracing,
    StepFunction,
    Times,
)
from trainperf.verdict import input_culprit, ranked, verdict


def finding(id, bound, category="input", equivalence=Equivalence.EXACT, **fields):
    return Finding(id, category, f"Title of {id}", "text", bound, "basis", equivalence, **fields)


def order(*findings, **changes):
    return [one.id for one in ranked(findings, evidence(**changes))]


# ---------------------------------------------------------------------------- findings


def test_the_largest_bound_comes_first():
    assert order(finding("a", 1.3), finding("b", 3.0), finding("c", 2.0)) == ["b", "c", "a"]


def test_what_lies_within_the_noise_is_dropped():
    assert order(finding("a", 1.04)) == []
    noisy = measure(0.1)
    noisy = replace(noisy, low=0.07, high=0.13)
    loud = replace(evidence(), times=Times(noisy, noisy, measure(0.01), 0.001))
    assert [one.id for one in ranked([finding("a", 1.5), finding("b", 1.7)], loud)] == ["b"]


def test_a_gpu_that_is_not_used_comes_before_everything():
    unused = finding("gpu_unused", None, "environment", Equivalence.ENVIRONMENT)
    assert order(finding("a", 30.0), unused) == ["gpu_unused", "a"]


def test_a_function_of_the_users_own_that_takes_the_step_comes_before_what_may_give_more():
    own = finding("own_function", 1.5, "host", data={"takes": True})
    unused = finding("gpu_unused", None, "environment", Equivalence.ENVIRONMENT)
    assert order(finding("a", 30.0), own, unused) == ["gpu_unused", "own_function", "a"]
    small = replace(own, bound=1.2, data={"takes": False})
    assert order(finding("a", 30.0), small) == ["a", "own_function"]


def test_it_stands_behind_an_edit_that_is_to_be_tried_before_it():
    own, edit = finding("own_function", 1.5, "input"), finding("torch_workers", 2.0)
    assert order(own, replace(edit, rewritable=True)) == ["torch_workers", "own_function"]


def test_a_change_of_the_experiment_counts_half():
    bigger = finding("batch_size", 1.9, "model", Equivalence.SEMANTICS)
    assert order(bigger, finding("a", 1.6)) == ["a", "batch_size"]


def test_new_code_stands_right_behind_the_edit_that_is_to_be_tried_first():
    own, edit, other = (
        finding("torch_item_work", 9.0),
        finding("torch_workers", 2.0, rewritable=True),
        finding("a", 1.5),
    )
    assert order(own, other, edit) == ["torch_workers", "torch_item_work", "a"]
    assert order(own, other, replace(edit, bound=12.0)) == ["torch_workers", "torch_item_work", "a"]
    assert order(own, other, replace(edit, rewritable=False)) == [
        "torch_item_work",
        "torch_workers",
        "a",
    ]
    assert order(own, other) == ["torch_item_work", "a"]


def test_of_equals_the_one_with_a_patch_comes_first_and_then_the_name_decides():
    assert order(finding("c", 2.0), finding("b", 2.0), finding("d", 2.001, rewritable=True)) == [
        "d",
        "b",
        "c",
    ]


# ----------------------------------------------------------------------------- verdict


def said(findings=(), **changes):
    return verdict(evidence(**changes), tuple(findings))


def test_a_healthy_script_is_called_healthy():
    answer = said()
    assert answer.healthy
    assert answer.bottleneck == "none"
    assert answer.text.startswith("Healthy: 98 %")
    assert answer.utilization == pytest.approx(0.98)


def test_nothing_measured_is_not_healthy():
    answer = said(real=None, resident=None, input=None)
    assert not answer.healthy
    assert answer.text == "Nothing was measured: the loop made too few steps."
    assert answer.utilization is None


def test_the_line_of_accelerator_utilisation_is_ninety_percent():
    assert said(resident=0.091, input=0.05).healthy
    assert said(resident=0.089, input=0.05).bottleneck == "input"


def test_a_loss_within_the_noise_is_left_open():
    real = replace(measure(0.1), low=0.05, high=0.15)
    resident = replace(measure(0.085), low=0.05, high=0.12)
    found = replace(evidence(), times=Times(real, resident, measure(0.05), 0.001))
    answer = verdict(found, ())
    assert answer.grade == "not examined"
    assert "(step times vary by ±50 %); a longer --budget would examine it" in answer.text
    assert not answer.healthy


def test_an_eager_step_that_compiling_does_not_help_is_no_verdict():
    own = StepFunction("train_step", compiled=False, where=SITE)
    assert said(step_function=own, probes={"compiled": probe(1.01)}).healthy


def test_host_work_beside_the_step_names_its_dearest_callback():
    costs = (CallbackCost("Snapshot", 0.03, 100, where=SITE),)
    answer = said(host=0.040, callbacks=costs)
    assert answer.bottleneck == "host"
    assert "40 % of each step is spent outside" in answer.text
    assert "the callback `Snapshot`, train.py:12" in answer.text


def test_host_work_is_no_more_than_the_whole_step_where_resident_steps_were_slower():
    costs = (CallbackCost("Report", 0.118, 40, where=SITE),)
    answer = said(resident=0.125, host=0.119, callbacks=costs)
    assert "95 % of each step" in answer.text
    assert "100 % of each step" in said(resident=0.1, host=0.119, callbacks=costs).text


def test_the_end_of_the_epoch_is_the_verdict_where_it_is_the_first_finding():
    between = BetweenEpochs(50.0, 3, epoch_steps=1000, validation_s=45.0)
    answer = said([finding("keras_epoch_end", 1.5, "host")], between_epochs=between)
    assert answer.bottleneck == "host"
    assert "after every 1000 steps, 33 % of an epoch" in answer.text
    assert "mostly validation" in answer.text


def test_retracing_is_the_verdict_where_it_takes_the_time():
    found = Retracing("train_step", 20, 40, 2.0)
    assert "traced 20 times again in 40 steps, 50 %" in said(retracing=found).text
    assert said(retracing=Retracing("train_step", 1, 1000, 0.5)).healthy


def test_an_unused_gpu_is_the_whole_verdict():
    unused = finding("gpu_unused", None, "environment", Equivalence.ENVIRONMENT)
    answer = said([unused], resident=0.01, input=0.09)
    assert answer.bottleneck == "environment"
    assert "nothing else matters" in answer.text


def test_without_a_resident_time_the_verdict_says_what_is_known():
    own = FunctionCost("make_batch", "train.py", 5, 0.4, "main", 40)
    assert "40 % of each step passes in `make_batch`" in said(resident=None, functions=(own,)).text
    known = said([finding("a", 2.0)], resident=None)
    assert known.text == "Title of a. Each step takes 100 ms."


# ----------------------------------------------------------------------------- culprit


@pytest.mark.parametrize(
    ("stages", "functions", "says"),
    [
        ((), (), "its data"),
        (
            (stage("from_generator", 0.05, function=Function("rows", "data.py", 3)),),
            (),
            "`rows`, data.py:3",
        ),
        (
            (stage("PyDataset", 0.05),),
            (FunctionCost("read", "data.py", 9, 0.8, "worker", 80),),
            "`read`, data.py:9",
        ),
        ((stage("shuffle", 0.05),), (), "the `shuffle` at train.py:12"),
        ((stage("shuffle", 0.05, where=None),), (), "`shuffle`"),
        ((stage("map", 0.05, function=Function("<lambda>", "a.py", 1)),), (), "the `map` at"),
        ((stage("NumPy arrays", 0.05),), (), "Keras's batching of NumPy arrays, train.py:12"),
        ((stage("map", None), stage("batch", 0.01)), (), "the `batch` at"),
    ],
)
def test_the_culprit_of_the_input_is_the_users_own_function_where_there_is_one(
    stages, functions, says
):
    assert says in input_culprit(evidence(stages_=stages, functions=functions))


# --------------------------------------------------------- the noise of what it concerns


def loud(real=0.1, resident=0.098, input=0.01, **fields):
    """Evidence whose step varies by 40 %."""
    made = evidence(**fields)
    times = Times(
        replace(measure(real), low=0.6 * real, high=1.4 * real),
        replace(measure(resident), low=0.6 * resident, high=1.4 * resident),
        measure(input),
        0.001,
    )
    return replace(made, times=times)


def test_what_lies_between_epochs_is_not_hidden_by_the_noise_of_steps():
    between = BetweenEpochs(45.0, 3, epoch_steps=1000, restart_s=40.0)
    quiet, noisy = evidence(between_epochs=between), loud(between_epochs=between)
    ids = [one.id for one in ranked(detect_all(quiet), quiet)]
    assert "keras_epoch_end" in ids
    assert "keras_epoch_end" in [one.id for one in ranked(detect_all(noisy), noisy)]
