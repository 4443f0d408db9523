"""What a probe in the loop decides, by the blocks that a real run recorded."""

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import in_the_loop
from trainperf.model import Equivalence, Finding, Outcome, Run, Site
from trainperf.trial.candidates import Candidate, decided_in_the_loop

RUN = "torch_loop_samplers"
"""Of two small layers, whose pass took twice as long in 16 bits."""
SLOWER = evidence_of(RUN).probe("autocast")
DATA = {"device": "cpu", "dtype": "bfloat16", "scaler": ""}
FLOAT16 = 'probes.autocast.detail.dtype = "float16"'


def seen(name, laid=""):
    """The run with the slower probe as that of another change."""
    return evidence_of(f"{RUN} | {laid}", {f"probes.{name}": SLOWER})


def finding(fix="torch_autocast", data=DATA):
    fix, where = by_id()[fix], (Site("train.py", 12, "main", 9, 12, 30),)
    return Finding(fix.id, fix.category, "", "", 1.5, "", fix.equivalence, where, data=data)


@pytest.mark.parametrize(
    "case",
    [
        f'{RUN} | probes.autocast = missing "given up"',
        f"{RUN} | probes.autocast.pairs = 4",  # no interval of its own
        f"{RUN} | probes.autocast = 0.8 ± 0.15; probes.autocast.pairs = 6",
        f"{RUN} | {FLOAT16}",  # another precision than the edit's
        # a part of the step, the rest of which might gain more than it loses
        "torch_step_logging",
        f"{RUN} | probes.autocast.base_s = 0.00001",
        f'{RUN} | torch.models[+] = {{"cls": "Net", "trained": false}}',
        f"{RUN} | times.real = missing; times.resident = missing; torch.split = missing",
    ],
)
def test_a_probe_of_less_than_the_edit_makes_decides_nothing(case):
    assert in_the_loop(finding(), evidence_of(case)) is None


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
    assert in_the_loop(finding(fix), evidence_of(RUN)) is None


def test_a_bound_of_a_gpu_step_counts_its_waits_as_computing():
    parts = {"forward": 0.00003, "backward": 0.00005, "sync": 0.00015, "optimizer": 0.0002}
    split = {"torch.split": [{"name": name, "seconds": s} for name, s in parts.items()]}
    split["probes.matmul_precision"] = SLOWER
    fix = finding("torch_matmul_precision")
    assert in_the_loop(fix, evidence_of(f"{RUN} | device = GPU", split)) is not None
    assert in_the_loop(fix, evidence_of(RUN, split)) is None


def candidate(fix, variant="", data=None, **fields):
    chosen = finding(fix, data or {}) if variant else None
    run = Run(("python", "train.py"), "/home/me", "train.py")
    return Candidate((fix,), run, Equivalence.NUMERICS, 1.5, 0, variant, chosen, **fields)


def decided(case, *chosen):
    findings = [finding(fix, DATA) for fix in dict.fromkeys(one.fixes[0] for one in chosen)]
    left, trials = decided_in_the_loop(chosen, findings, case)
    return [one.name for one in left], trials


def test_what_is_slower_in_the_loop_is_a_trial_and_no_candidate():
    both = candidate("torch_autocast"), candidate("torch_compile")
    left, (trial,) = decided(evidence_of(RUN), *both)
    assert left == ["torch_compile"]
    assert (trial.fix, trial.outcome, trial.kept) == ("torch_autocast", Outcome.SLOWER, False)
    assert (trial.basis, trial.note, trial.pairs) == ("in the loop", "in the loop", SLOWER.pairs)
    assert (trial.low, trial.speedup, trial.high) == (SLOWER.low, SLOWER.ratio, SLOWER.high)
    assert trial.bound == 1.5


@pytest.mark.parametrize(
    ("ratio", "outcomes"),
    [
        ("0.999 ± 0.005", [Outcome.NO_EFFECT]),
        ("1.026 ± 0.01", []),  # what gains, or may, is tried
        ("2", []),
    ],
)
def test_what_gives_nothing_in_the_loop_has_no_effect(ratio, outcomes):
    laid = f"probes.jit_compile = {ratio}; probes.jit_compile.pairs = 6"
    left, trials = decided(evidence_of(f"small_batch | {laid}"), candidate("keras_jit_compile"))
    assert [trial.outcome for trial in trials] == outcomes
    assert len(left) + len(trials) == 1


def test_what_may_pay_on_top_of_another_is_tried_where_that_is():
    both = candidate("torch_channels_last"), candidate("torch_autocast")
    one = seen("channels_last", "probes.autocast = missing")
    assert decided(one, *both)[0] == ["torch_channels_last", "torch_autocast"]
    left, trials = decided(seen("channels_last"), *both)
    assert (left, len(trials)) == ([], 2)
