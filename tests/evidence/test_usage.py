"""Samples of a phase, taken together."""

from __future__ import annotations

from typing import Any

from recordings import FIT, observed, recording
from trainperf.evidence.timing import usage
from trainperf.model import CudaDevice, Device, GpuSample, HostSample, PhaseUse, Sample

REAL = {"e": "phase", "p": "real", "b": 0, "t": 10.0}
RESIDENT = {"e": "phase", "p": "resident", "b": 0, "t": 20.0}


def host(**fields: Any) -> HostSample:
    return HostSample(1.0, 1.0, 100, 1, 1, **fields)


def phases(*samples: Sample) -> dict[str, PhaseUse]:
    run = recording(FIT, REAL, RESIDENT, samples=samples)
    return {use.phase: use for use in usage(run, observed(FIT, REAL, RESIDENT))}


def gpu(*samples: GpuSample) -> dict[str, Any]:
    made = tuple(Sample(11.0 + number, None, (one,)) for number, one in enumerate(samples))
    return phases(*made)["real"].gpu[0]


def test_reasons_have_the_share_of_the_samples_that_gave_any_answer() -> None:
    found = gpu(
        GpuSample(0, throttle=("power cap", "power brake")),
        GpuSample(0, throttle=("power cap",)),
        GpuSample(0, throttle=()),
        GpuSample(0, throttle=()),
        GpuSample(0, throttle=None),
    )
    assert found["throttle_shares"] == {"power brake": 0.25, "power cap": 0.5}


def test_the_memory_of_a_card_is_not_that_of_a_slice() -> None:
    samples = (Sample(11.0, None, (GpuSample(0, memory_used=70),)),)
    run = recording(FIT, REAL, samples=samples)

    def peak(mig: bool) -> int | None:
        gpus = (CudaDevice(0, "A", index=0, mig=mig),)
        (use,) = usage(run, observed(FIT, REAL), Device("GPU", "A", 1, gpus))
        found: int | None = use.gpu[0]["memory_used_peak"]
        return found

    assert (peak(False), peak(True)) == (70, None)
