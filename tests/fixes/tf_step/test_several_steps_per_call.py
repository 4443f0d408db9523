"""Several steps per call: the same training, unless a callback acts on batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import findings_to_try, shown_findings
from trainperf.model import CallbackCost, Equivalence, Finding

IDLE = 1e-6
EVIDENCE = evidence_of("tiny_steps | loop.epoch_steps = 1000")
FIX = [by_id()["keras_steps_per_execution"]]
SITE = EVIDENCE.loop.where


def found(*callbacks: CallbackCost) -> Finding:
    (finding,) = shown_findings(replace(EVIDENCE, callbacks=callbacks), among=FIX)
    return finding


@pytest.mark.parametrize(
    "callback",
    [
        CallbackCost("ProgbarLogger", 50e-6, builtin=True),
        CallbackCost("ModelCheckpoint", IDLE, builtin=True, arguments={"save_freq": "epoch"}),
        CallbackCost("TensorBoard", IDLE, builtin=True, arguments={"update_freq": "epoch"}),
        CallbackCost("LambdaCallback", IDLE, builtin=True),
        CallbackCost("EpochReport", IDLE, where=SITE),
    ],
    ids=lambda one: one.name,
)
def test_callbacks_that_act_on_epochs_leave_it_exact(callback: CallbackCost) -> None:
    finding = found(callback)
    assert finding.equivalence is Equivalence.EXACT
    assert callback.name not in finding.text


@pytest.mark.parametrize(
    "callback",
    [
        CallbackCost("ModelCheckpoint", IDLE, builtin=True, arguments={"save_freq": 100}),
        CallbackCost("TensorBoard", IDLE, builtin=True, arguments={"update_freq": 1}),
        CallbackCost("LambdaCallback", 20e-6, builtin=True),
        CallbackCost("Schedule", IDLE, methods={"on_train_batch_begin": SITE}),
        CallbackCost("LossLog", 20e-6, where=SITE),
    ],
    ids=lambda one: one.name,
)
def test_a_callback_that_acts_on_batches_makes_it_another_experiment(
    callback: CallbackCost,
) -> None:
    finding = found(callback)
    assert finding.equivalence is Equivalence.SEMANTICS
    assert f"{callback.name} " in finding.text
    assert "called once in 20" in finding.text


@pytest.mark.parametrize(
    ("epoch_steps", "steps"),
    [(None, 16), (10, 10), (254, 127), (1000, 20), (1875, 15), (938, 14), (251, 16), (17, 17)],
)
def test_a_call_runs_about_sixteen_steps_and_an_epoch_whole_calls(epoch_steps, steps):
    loop = replace(EVIDENCE.loop, epoch_steps=epoch_steps)
    (found,) = findings_to_try(replace(EVIDENCE, loop=loop), (), among=FIX)
    assert found.data["steps"] == steps
    assert f"steps_per_execution={steps} " in found.advice
