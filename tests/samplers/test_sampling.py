from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kit.stubs import run_against_stub
from trainperf.samplers import sampling
from trainperf.samplers.sampling import Sampling


def test_a_full_list_is_thinned_evenly_and_says_so() -> None:
    watch = Sampling(os.getpid(), interval=0.5, limit=8)
    taken = []
    for _ in range(20):
        watch.take()
        taken.append(watch.samples[-1].t)
    kept = [sample.t for sample in watch.samples]
    assert len(kept) < 8
    assert kept[0] == taken[0]
    assert kept == sorted(kept)
    assert watch.interval > 0.5
    assert "one every" in watch.note


def test_the_thread_samples_until_it_is_stopped() -> None:
    enough = threading.Event()

    class Counting(Sampling):
        def take(self) -> None:
            super().take()
            if len(self.samples) >= 3:
                enough.set()

    with Counting(os.getpid(), interval=0.001) as watch:
        assert enough.wait(30)
    count = len(watch.samples)
    assert count >= 3
    assert not watch._thread.is_alive()
    watch.stop()
    assert len(watch.samples) == count


def test_a_driver_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    class Hanging(sampling.NvmlSampler):
        def __init__(self) -> None:
            release.wait(60)
            super().__init__()

    monkeypatch.setattr(sampling, "NvmlSampler", Hanging)
    monkeypatch.setattr(sampling, "_ANSWER_S", 0.05)
    with Sampling(os.getpid()) as watch:
        pass
    assert "not answered" in watch.gpu_reason
    release.set()
    watch._thread.join(30)


def test_gpus_are_sampled_beside_the_host(nvml_stub: Path) -> None:
    code = """
        import json, os, time
        from trainperf.samplers.sampling import Sampling

        with Sampling(os.getpid(), interval=0.001) as watch:
            while len(watch.samples) < 4:
                time.sleep(0.01)
        print(json.dumps({
            "gpus": [gpu.name for gpu in watch.gpus],
            "counts": [len(sample.gpus) for sample in watch.samples[:4]],
            "reason": watch.gpu_reason, "note": watch.note,
        }))
    """
    seen = run_against_stub(nvml_stub, code, GPUS=2, PROCESSES=0, LOST="1:2")
    assert seen["gpus"] == ["NVIDIA Stub"] * 2
    assert seen["counts"] == [2, 2, 1, 1]
    assert seen["reason"] == ""
    assert "GPU 1" in seen["note"]
