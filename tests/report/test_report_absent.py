"""Missing measurements where the machine says that they should have been taken."""

from __future__ import annotations

from kit.evidence import by_cuda, evidence, machine
from kit.torch_evidence import torch_evidence
from recordings import FIT, recording
from trainperf.model import Instance, InstanceType, LogCall, Machine, Site
from trainperf.report.assemble import diagnosis as report
from trainperf.samplers.nvml import NO_DRIVER

GIB = 1024**3


def gpu_use(box: Machine) -> str:
    run = recording(FIT)
    found = report.not_measured(run, evidence(machine=box))
    (reason,) = (one.reason for one in found if one.what == "GPU use")
    return reason


def test_a_gpu_that_nobody_promised_is_not_missed() -> None:
    cpu = Instance("ec2", "c7i.xlarge", InstanceType("c7i.xlarge", 4, 8 * GIB))
    for box in (
        machine(),
        machine(instance=cpu),
        machine(instance=Instance("ec2", "x9.large")),
    ):
        assert "though" not in gpu_use(box)


def test_a_gpu_that_the_instance_has_is_missed() -> None:
    kind = InstanceType("ml.g5.xlarge", 4, 16 * GIB, gpus=1, gpu="A10G")
    rented = machine(instance=Instance("sagemaker", "ml.g5.xlarge", kind))
    assert gpu_use(rented).endswith(", though ml.g5.xlarge has 1 × A10G")


def test_what_a_tracker_would_send_is_said_not_to_be_timed() -> None:
    where = Site("train.py", 33, "main")
    logs = tuple(
        LogCall(what, where, 1.0, 0.001)
        for what in ("tqdm.set_postfix", "mlflow.log_metric", "mlflow.log_param")
    )
    found = report.not_measured(recording(FIT), torch_evidence(torch={"logs": logs}))
    (one,) = (one for one in found if "sending" in one.what)
    assert one.what == "what sending to MLflow takes"
    assert "`mlflow.log_metric` (train.py:33)" in one.reason


def test_a_gpu_that_only_cuda_tells_of_is_named_and_nvml_is_missed() -> None:
    run = recording(FIT, gpu_reason=NO_DRIVER)
    found = report.not_measured(run, evidence(device=by_cuda("NVIDIA H100", "9.0")))
    (reason,) = (one.reason for one in found if one.what == "GPU use")
    assert reason.startswith(NO_DRIVER)
    assert "`utility`" in reason
    assert reason.endswith("CUDA says: NVIDIA H100")
