"""What a probe in the loop decides, by the blocks that a real run recorded."""

from dataclasses import replace

import pytest

from kit.evidence import GPU, SITE, evidence, machine
from kit.torch_evidence import MODEL, split, torch_evidence
from trainperf.evidence.timing import probe
from trainperf.fixes import by_id, in_the_loop
from trainperf.model import Equivalence, Finding, Missing, Outcome, Run
from trainperf.trial.candidates import Candidate, decided_in_the_loop

# 24 small linear layers with norms, batch of 16, on two cores: seconds a step of each block
PASS = [0.001735, 0.00168, 0.001617, 0.001597, 0.001618, 0.001632]
SIXTEEN_BITS = [0.003837, 0.003891, 0.003677, 0.004083, 0.003733, 0.00386]
NOISE = [0.0018, 0.0024, 0.0019, 0.0024, 0.002, 0.0023]  # 0.63 to 0.93, by neighbours
DETAIL = {"dtype": "bfloat16", "model": "Sequential"}
STEP = split(forward=0.0009, backward=0.0011, optimizer=0.0002)
DATA = {"device": "cpu", "dtype": "bfloat16", "scaler": ""}


def ran(base=PASS, candidate=SIXTEEN_BITS, **detail):
    return probe(
        {
            "name": "",
            "base": base,
            "candidate": candidate,
            "one_off": 0.0083,
            "steps": 288,
            "detail": {**DETAIL, **detail},
        }
    )


def seen(name="autocast", made=None, **fields):
    probes = {name: ran() if made is None else made}
    times = {"real": 0.0023, "resident": 0.0022, "input": 0.0001, "split": STEP}
    return torch_evidence(probes=probes, **{**times, **fields})


def two_models(case):
    models = (MODEL, replace(MODEL, trained=False))
    return replace(case, torch_=replace(case.torch, models=models))


def finding(fix="torch_autocast", data=DATA):
    fix = by_id()[fix]
    return Finding(fix.id, fix.category, "", "", 1.5, "", fix.equivalence, (SITE,), data=data)


@pytest.mark.parametrize(
    "case",
    [
        seen(made=Missing("given up")),
        seen(made=ran(PASS[:4], [5 * each for each in SIXTEEN_BITS[:4]])),  # no interval of its own
        seen(made=ran(candidate=NOISE)),
        seen(made=ran(dtype="float16")),  # another precision than the edit's
        # a part of the step, the rest of which might gain more than it loses
        seen(
            made=ran(candidate=[1.1 * each for each in PASS]),
            split=split(forward=0.0004, log=0.0016),
        ),
        seen(made=ran(base=[each / 4 for each in PASS], candidate=PASS)),
        two_models(seen()),
        seen(real=None, resident=None, input=None, split=Missing("no")),
    ],
    ids=str,
)
def test_a_probe_of_less_than_the_edit_makes_decides_nothing(case):
    assert in_the_loop(finding(), case) is None


def test_a_pass_without_its_scaler_is_not_what_the_edit_makes():
    half = {**DATA, "dtype": "float16", "scaler": 'amp.GradScaler("cuda")'}
    assert in_the_loop(finding(data=half), seen(made=ran(dtype="float16"))) is None


@pytest.mark.parametrize("fix", ["torch_fused_optimizer", "keras_steps_per_execution"])
def test_a_probe_that_leaves_something_out_only_bounds_its_fix(fix):
    names = {"torch_fused_optimizer": "fused", "keras_steps_per_execution": "steps_per_execution"}
    assert in_the_loop(finding(fix), seen(names[fix])) is None


def test_the_very_step_of_an_edit_has_its_ratio_with_the_interval_of_its_blocks():
    found = in_the_loop(finding(), seen())
    assert found.speedup == pytest.approx(0.430, abs=0.005)
    assert 0.40 < found.low < found.speedup < found.high < 0.46
    assert (found.pairs, found.steps) == (6, 288)
    assert in_the_loop(finding(), seen(split=Missing("no"))) == found


@pytest.mark.parametrize(
    ("fix", "name"),
    [
        ("torch_channels_last", "channels_last"),
        ("torch_matmul_precision", "matmul_precision"),
        ("torch_cudnn_benchmark", "cudnn_benchmark"),
        ("keras_jit_compile", "jit_compile"),
        ("tf_jit_compile", "jit_compile"),
        ("tf_function", "compiled"),
        ("keras_run_eagerly", "compiled"),
    ],
)
def test_each_such_probe_decides_on_its_fix_and_on_no_other(fix, name):
    assert in_the_loop(finding(fix), seen(name)) is not None
    assert in_the_loop(finding(fix), seen("double_batch")) is None


def test_of_several_batches_the_probed_one_is_decided():
    made = {times: finding("batch_size", {"samples_per_step": times}) for times in (2, 4)}
    assert in_the_loop(made[2], seen("double_batch")) is not None
    assert in_the_loop(made[4], seen("double_batch")) is None
    apart = seen("double_batch", real=0.02, resident=0.0022, input=0.0001)
    assert in_the_loop(made[2], apart) is None  # what comes once a step is then half as often


def test_a_bound_of_a_gpu_step_counts_its_waits_as_computing():
    waits = split(forward=0.0002, backward=0.0003, sync=0.0015, optimizer=0.0002)
    case = seen("matmul_precision", device=GPU, machine=machine(), split=waits)
    assert in_the_loop(finding("torch_matmul_precision"), case) is not None


def candidate(fix, variant="", data=None, **fields):
    chosen = finding(fix, data or {}) if variant else None
    run = Run(("python", "train.py"), "/home/me", "train.py")
    return Candidate((fix,), run, Equivalence.NUMERICS, 1.5, 0, variant, chosen, **fields)


def decided(case, *chosen):
    findings = [finding(fix, DATA) for fix in dict.fromkeys(one.fixes[0] for one in chosen)]
    left, trials = decided_in_the_loop(chosen, findings, case)
    return [one.name for one in left], trials


def test_what_is_slower_in_the_loop_is_a_trial_and_no_candidate():
    left, (trial,) = decided(seen(), candidate("torch_autocast"), candidate("torch_compile"))
    assert left == ["torch_compile"]
    assert (trial.fix, trial.outcome, trial.kept) == ("torch_autocast", Outcome.SLOWER, False)
    assert (trial.basis, trial.note, trial.pairs) == ("in the loop", "in the loop", 6)
    assert trial.low < trial.speedup < trial.high < 0.46
    assert trial.bound == 1.5


def test_what_gives_nothing_in_the_loop_has_no_effect():
    same = ran(candidate=[each * 1.001 for each in PASS])
    (left, (trial,)) = decided(
        evidence(probes={"jit_compile": same}), candidate("keras_jit_compile")
    )
    assert (left, trial.outcome) == ([], Outcome.NO_EFFECT)


def test_what_gains_in_the_loop_or_may_is_tried():
    for gain in (0.5, 0.975):  # the seconds of the candidate over those of the step as it is
        case = evidence(probes={"jit_compile": ran(candidate=[each * gain for each in PASS])})
        assert decided(case, candidate("keras_jit_compile")) == (["keras_jit_compile"], [])


def test_what_may_pay_on_top_of_another_is_tried_where_that_is():
    both = candidate("torch_channels_last"), candidate("torch_autocast")
    slow = {"channels_last": ran()}
    assert decided(seen("channels_last"), *both)[0] == ["torch_channels_last", "torch_autocast"]
    left, trials = decided(replace(seen(), probes={**seen().probes, **slow}), *both)
    assert (left, len(trials)) == ([], 2)


def test_of_the_ways_to_make_a_fix_the_decided_one_is_not_tried():
    ways = [
        candidate("batch_size", f"batch={16 * times}", {"samples_per_step": times})
        for times in (2, 4)
    ]
    left, (trial,) = decided(seen("double_batch"), *ways)
    assert (left, trial.name) == (["batch_size (batch=64)"], "batch_size (batch=32)")


def test_what_saves_between_epochs_as_well_is_tried():
    shown = candidate("torch_autocast", epoch=object())
    assert decided(seen(), shown) == (["torch_autocast"], [])
