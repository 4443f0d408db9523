"""Verdicts on storage, CPU quotas and machines that hold a step back."""

from __future__ import annotations

from dataclasses import replace

import pytest

import zoo
from fixes.case_text import evidence_of
from trainperf.fixes import by_id
from trainperf.fixes.findings import shown_findings
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.verdict import after_trials, ranked, verdict, verdict_after


def answered(case: Evidence) -> tuple[str, str]:
    said = verdict(case, ranked(shown_findings(case), case))
    return said.bottleneck, said.text


def detected(id_: str, case: Evidence | str) -> Finding:
    seen = evidence_of(case) if isinstance(case, str) else case
    (found,) = shown_findings(seen, among=[by_id()[id_]])
    return found


def bound(id_: str, case: str) -> float:
    found = detected(id_, case).bound
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("laid", "share", "ends"),
    [
        ("", "19 %", "with `num_workers=0`; 13 % is not explained."),
        ("times.input = 1.0", "32 %", "with `num_workers=0`."),
        ("times.input = missing", "32 %", "with `num_workers=0`."),
    ],
)
def test_the_input_is_to_blame_for_no_more_than_it_takes_alone(laid, share, ends):
    bottleneck, text = answered(evidence_of(f"two_trainings | {laid}" if laid else "two_trainings"))
    assert bottleneck == "input"
    assert f"{share} of each step waits for the items of `TensorDataset`" in text
    assert text.endswith(ends)


# ----------------------------------------------------------------------------- storage

FROM_DISK = "small_files | reads[0].stored_per_step = 1024000"
"""A step of 15.1 ms that waits for 5.84 ms; its 64 files take 0.31 ms each."""

WAITING = "seed_torch_waiting_items"
ON_EBS = f"{WAITING} | reads = SHARDS"
"""A step of 57.9 ms that waits for 52.6 ms; its 3.6 MiB take 29 ms by the probe."""


@pytest.mark.parametrize(
    ("case", "texts"),
    [
        (
            f"{FROM_DISK}; reads[0].volume = EFS; reads[0].cold_file_s = 8e-5",
            [
                "1.63× as fast if data were free; 39 % of each step waits for data, 5.12 ms of its",
                " 15.1 ms for 64 small files to be opened and read on /mnt/efs",
            ],
        ),
        # several are read at once: one after the other they would take longer than the step
        (FROM_DISK, ["up to 5.84 ms of its 15.1 ms for 64 small files"]),
        # a loop that reads its own batches spends rather than waits
        (f'{FROM_DISK}; loop.kind = "call"', ["39 % of each step goes into data"]),
        # a run that used up a burst waits longer than the probe, which came after a pause, says
        (ON_EBS, ["up to 52.6 ms of its 57.9 ms for 3.60 MiB to be read from /opt/ml/input (EBS"]),
        (
            f"{ON_EBS}; use = []",
            ["waits for data, 28.8 ms of its 57.9 ms for 3.60 MiB to be read from /opt/ml/input"],
        ),
        (f"{WAITING} | objects = OBJECTS", ["for 2.0 requests to s3://data/train/"]),
    ],
)
def test_storage_that_takes_most_of_the_waiting_is_the_verdict(case: str, texts: list[str]) -> None:
    bottleneck, text = answered(evidence_of(case))
    assert bottleneck == "storage"
    assert [part for part in texts if part not in text] == []


def test_storage_that_takes_little_of_the_waiting_is_not() -> None:
    case = evidence_of(f"{FROM_DISK}; reads[0].cold_file_s = 4.4e-5")  # 2.8 of 5.84 ms
    assert any(finding.id == "storage_small_files" for finding in shown_findings(case))
    assert answered(case)[0] == "input"


def test_a_run_that_used_up_a_burst_waits_longer_than_the_probe_says() -> None:
    """Measured: 16 times, where a probe after a pause said 1.48."""
    found = detected("storage_throughput", ON_EBS)
    assert found.bound is not None
    assert found.bound > 10
    assert "52.6 ms of a step passed without computing" in found.text
    busy = detected("storage_throughput", f"{ON_EBS}; use[real].cpu_cores = 0.9")
    assert busy.bound is not None
    assert busy.bound < 3
    assert "without computing" not in busy.text


# ------------------------------------------------------------------------- environment


def quota(share: float) -> str:
    """Half a core, which was used up in a share of the periods."""
    return f'container = {{"seconds": 20.0, "quota_cores": 0.5, "throttled_share": {share}}}'


HEALTHY = "emulated_hidden | probes.compile = 1.0"


def test_a_quota_that_is_used_up_is_the_verdict_where_it_costs_most() -> None:
    bottleneck, text = answered(evidence_of(f"healthy | {quota(0.95)}"))
    assert bottleneck == "environment"
    assert text == (
        "The container's CPU quota of 0.5 cores stops the script: each step takes 121 ms, and "
        "it could run up to 3.5× as fast."
    )


@pytest.mark.parametrize("resident", ["0.1 ± 0.095", "0.06 ± 0.055"])
def test_a_quota_is_the_verdict_where_the_times_settle_nothing(resident: str) -> None:
    case = evidence_of(
        f"healthy | times.real = 0.1 ± 0.095; times.resident = {resident}; {quota(0.95)}"
    )
    assert answered(case)[0] == "environment"
    other = Finding("a", "model", "", "", 2.0, "", Equivalence.EXACT)
    assert ranked([other], case) == ()


def test_the_quota_is_named_before_the_threads_that_it_makes_too_many() -> None:
    case = evidence_of(
        f"torch_healthy | torch.flags.threads = 2; machine.cores = 0.5; {quota(1.0)}"
    )
    found = ranked(shown_findings(case), case)
    assert found[0].id == "omp_threads"  # it can be tried
    said = verdict(case, found)
    assert said.text.startswith("The container's CPU quota of 0.5 cores stops the script")


@pytest.mark.parametrize(
    ("case", "most"),
    [
        # threads wait as long as the quota stops them
        (
            f"retracing | machine.cores = 0.5; machine.quota_cores = 0.5; {quota(0.5)}",
            1 / (1 - 0.75 * 0.5),
        ),
        # a resident step that was slowed does not lower it: 1.78 times was measured, not 1.52
        ("torch_healthy | machine.cores = 0.5; torch.flags.threads = 2; times.resident = 0.2", 4.0),
    ],
)
def test_the_bound_of_threads_that_are_too_many(case: str, most: float) -> None:
    assert bound("omp_threads", case) == pytest.approx(most)


def test_a_gpu_that_is_held_back_is_the_verdict_of_a_step_that_waits_for_nothing() -> None:
    held = Finding("gpu_throttled", "environment", "Held", "", 1.8, "", Equivalence.ENVIRONMENT)
    said = verdict(evidence_of(HEALTHY), (held,))
    assert said.bottleneck == "environment"
    assert said.text == "Held: each step takes 150 ms, and it could run up to 1.80× as fast."
    model = replace(held, id="a", category="model", bound=2.0)
    assert verdict(evidence_of(HEALTHY), (model, held)).bottleneck == "model"


# ------------------------------------------------------------------------- healthy ones


@pytest.mark.parametrize(
    "laid",
    [
        quota(0.0),
        quota(0.03),
        # only while the script started
        f"{quota(0.9)}; use[real].throttled_share = 0.0",
        # swap that was used long ago, and read back
        'container = {"seconds": 20.0, "swapped_in": 2000000000}',
        # files in memory: only the first epoch was slow
        "reads = SHARDS; reads[0].stored_per_step = 0.0",
    ],
)
def test_a_healthy_script_stays_healthy(laid: str) -> None:
    case = evidence_of(f"{HEALTHY}; {laid}")
    assert verdict(case, ranked(shown_findings(case), case)).healthy


def test_saving_that_pays_is_named_before_a_batch_that_nobody_tried() -> None:
    saved = zoo.diagnosed("sharded_checkpoints")
    found = after_trials(ranked(saved.findings, saved.evidence), saved.trials, saved.evidence)
    assert [one.id for one in found] == ["torch_save_beside", "batch_size"]
    of_the_training, of_steps = (one.bound or 0.0 for one in found)
    assert of_the_training < of_steps
    told = verdict_after(saved.evidence, found, saved.trials)
    assert "43 % goes into saving (sharded_checkpoints.py:25)" in told.text
    lesser = replace(found[0], bound=1.05, equivalence=Equivalence.EXACT)
    untried = (found[1], lesser)
    assert after_trials(untried, (), saved.evidence) == untried
