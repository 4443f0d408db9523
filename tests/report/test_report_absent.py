"""Missing measurements where the machine says that they should have been taken."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from recordings import FIT, recording
from trainperf.report.assemble import diagnosis as report
from trainperf.samplers.nvml import NO_DRIVER


def missing(case: str, what: str) -> str:
    run = recording(FIT, gpu_reason=NO_DRIVER)
    found = report.not_measured(run, evidence_of(case))
    return next((lack.reason for lack in found if lack.what == what), "")


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("healthy", ""),
        ("healthy | machine = G5_XLARGE; machine.instance.type.gpus = 0", ""),
        ("healthy | machine = ML_G5_XLARGE", f"{NO_DRIVER}, though ml.g5.xlarge has 1 × A10G"),
        (
            "healthy | device = A10G",
            f"{NO_DRIVER}; what the GPU is, CUDA says: NVIDIA A10G",
        ),
    ],
)
def test_a_gpu_is_missed_where_the_instance_or_cuda_has_it(case: str, reason: str) -> None:
    assert missing(case, "GPU use") == reason


def test_what_a_tracker_would_send_is_said_not_to_be_timed() -> None:
    calls = ", ".join(
        f'{{"what": "{what}", "where": "train.py:33", "calls": 1.0, "seconds": 0.001}}'
        for what in ("tqdm.set_postfix", "mlflow.log_metric", "mlflow.log_param")
    )
    reason = missing(f"torch_healthy | torch.logs = [{calls}]", "what sending to MLflow takes")
    assert "`mlflow.log_metric` (train.py:33)" in reason
