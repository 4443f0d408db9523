from dataclasses import replace
from types import SimpleNamespace

import pytest

from fixes.boxes import GIB, box
from recordings import recording
from trainperf.model import CudaDevice, Device, GpuSample, HostSample, Sample
from trainperf.recording.machine.machine import Gpu
from trainperf.trial.legs import room as room_module
from trainperf.trial.legs.room import MANY, NOT_TOLD, TWO, memory_is_short, room


def host(rss):
    return HostSample(1.0, 1.0, rss, 1, 1)


def samples(*rss):
    return tuple(Sample(float(t), host(one)) for t, one in enumerate(rss))


def on_gpus(*readings):
    """Samples of one GPU, or of several; None is what the driver does not say."""
    return tuple(
        Sample(
            float(t),
            None,
            tuple(GpuSample(n, memory_used=used) for n, used in enumerate(one)),
        )
        for t, one in enumerate(readings)
    )


def gpu(index=0, total=16 * GIB):
    return Gpu(index, "a GPU", total)


def test_memory_is_that_of_the_largest_moment_and_some_of_it_stays_free():
    found = room(recording(samples=samples(GIB, 4 * GIB, 2 * GIB)), box(memory_available=32 * GIB))
    assert found.legs == 6
    assert found.reason == "the script takes 4.00 GiB of memory, and 32.0 GiB is free"


def test_shared_memory_counts():
    full = box(shm_total=64 * 2**20, shm_free=60 * 2**20)
    found = room(recording(samples=samples(GIB), shm_used=20 * 2**20), full)
    assert found.legs == 2
    assert found.reason == "the script takes 20.0 MiB of /dev/shm, and 60.0 MiB is free"


def test_gpu_memory_is_what_the_run_added_to_what_was_taken_before():
    seen = on_gpus([2 * GIB], [7 * GIB], [6 * GIB])
    found = room(recording(samples=seen, gpus=(gpu(),)), box())
    assert found.legs == 2
    assert found.reason == "the script takes 5.00 GiB of the memory of GPU 0, and 14.0 GiB is free"


TORCH = {"e": "framework", "name": "torch", "gpus": [{"number": 0, "used": True}]}
FACTS = {"e": "facts", "t": 1.5}


def told(index=0, uuid="GPU-1", total=80, free=60, reserved=16, peak=20):
    """PyTorch's figures of a device, in GiB."""
    sizes = {"total": total, "free": free, "reserved": reserved, "reserved_peak": peak}
    sizes = {name: size and size * GIB for name, size in sizes.items()}
    return {"e": "gpu_memory", "index": index, "uuid": uuid, **sizes}


def test_what_probes_took_is_nothing_that_a_leg_needs():
    seen = on_gpus([0], [4 * GIB], [12 * GIB])
    before = recording(TORCH, FACTS, samples=seen, gpus=(gpu(),))
    assert room(before, box()).legs == 3
    assert room(replace(before, events={}), box()).legs == 1
    host_memory = recording(FACTS, samples=samples(GIB, 2 * GIB, 20 * GIB))
    assert room(host_memory, box(memory_available=32 * GIB)).legs == MANY


def test_a_script_on_the_cpu_does_not_care_for_gpus():
    seen = on_gpus([0], [12 * GIB])
    on_cpu = {**TORCH, "gpus": [{"used": False}]}
    assert room(recording(on_cpu, samples=seen, gpus=(gpu(),)), box()).legs == MANY


def test_what_others_do_on_gpus_that_the_script_does_not_use_is_no_concern():
    seen = on_gpus([0, 0], [10 * GIB, 2 * GIB])
    both = recording(TORCH, samples=seen, gpus=(gpu(0), gpu(1)))

    def on(index):
        return Device("GPU", "a GPU", 1, (CudaDevice(0, "a GPU", index=index),))

    assert room(both, box(), on(1)).legs == 7
    assert room(both, box(), on(None)).legs == 1  # nobody knows which it is
    cards = (gpu(0), replace(gpu(1), mig=True))  # of a slice the framework tells
    assert room(recording(TORCH, samples=seen, gpus=cards), box(), on(1)).legs == TWO


@pytest.mark.parametrize(("peak", "legs"), [(16, 4), (32, 2), (48, 1)])
def test_without_nvml_the_frameworks_own_numbers_set_the_limit(peak, legs):
    found = room(recording(TORCH, told(peak=peak, free=64, reserved=15)), box())
    assert found.legs == legs
    assert f"takes {peak}.5 GiB of the memory of GPU 0, and 79.0 GiB is free" in found.reason


def test_where_nobody_tells_the_memory_of_a_gpu_two_legs_live_together():
    found = room(recording({**TORCH, "name": "tensorflow"}), box())
    assert (found.legs, found.reason) == (TWO, NOT_TOLD)


@pytest.mark.parametrize(
    ("available", "limit", "short"),
    [
        (50, None, False),
        (4, None, True),
        (50, (10, 4), False),
        (50, (1000, 4), True),
        (4, (10, 9), True),
    ],
)
def test_memory_runs_out_in_the_machine_or_in_the_control_group(
    monkeypatch, available, limit, short
):
    memory = SimpleNamespace(total=100, available=available)
    monkeypatch.setattr(room_module.psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(room_module, "memory_limit", lambda: limit)
    assert memory_is_short() is short
