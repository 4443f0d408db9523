"""The GPU memory of a process, on a CUDA that counts as the real one does."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from kit.child import Record
from trainperf.child.torch import memory
from trainperf.child.torch.probes import probes
from trainperf.child.torch.probes.passes import NotOffered

GIB = 2**30
GPU = SimpleNamespace(type="cuda", index=0)


class Cuda:
    """Devices by the bytes that this process holds of each; the free ones are the card's."""

    def __init__(self, *reserved, free=60 * GIB, allocated=0, most=0, retries=0):
        self.held = reserved
        self.free = free
        self.allocated = allocated
        self.most = most
        self.retries = retries
        self.opened = []

    def is_initialized(self):
        return bool(self.held)

    def device_count(self):
        return len(self.held)

    def memory_reserved(self, device):
        return self.held[getattr(device, "index", device)]

    def memory_allocated(self, device):
        return self.allocated

    def max_memory_allocated(self, device):
        return self.most

    def mem_get_info(self, device):
        self.opened.append(device)
        return self.free, 80 * GIB

    def get_device_properties(self, device):
        return SimpleNamespace(uuid="1234-5678")

    def memory_stats(self, device):
        held = self.held[device]
        return {
            "reserved_bytes.all.current": held,
            "reserved_bytes.all.peak": 2 * held,
            "num_alloc_retries": self.retries,
        }


@pytest.fixture
def cuda(monkeypatch):
    def make(*reserved, **settings):
        made = Cuda(*reserved, **settings)
        monkeypatch.setattr(memory, "_cuda", lambda: made)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", made.max_memory_allocated)
        return made

    return make


def test_each_gpu_that_holds_something_is_told_and_no_other_is_opened(cuda):
    made = cuda(0, 3 * GIB)
    driver = SimpleNamespace(record=Record())
    memory.record(driver)
    assert driver.record.events == [
        {
            "e": "gpu_memory",
            "index": 1,
            "uuid": "GPU-1234-5678",
            "total": 80 * GIB,
            "free": 60 * GIB,
            "reserved": 3 * GIB,
            "reserved_peak": 6 * GIB,
            "allocated_peak": 0,
            "retries": 0,
            "ooms": 0,
        }
    ]
    assert made.opened == [1]


@pytest.mark.parametrize(("free", "fits"), [(8 * 4 * 100, False), (2 * 8 * 4 * 100, True)])
def test_copies_of_an_optimizers_tensors_take_half_of_the_free_gpu_memory(
    cuda, monkeypatch, free, fits
):
    cuda(1, free=free, allocated=1)
    weights = SimpleNamespace(device=GPU, grad=None, nbytes=400)
    monkeypatch.setattr(probes, "type", lambda _: torch.nn.Parameter, raising=False)
    with nullcontext() if fits else pytest.raises(NotOffered, match="too little memory"):
        probes._check_copies([weights])
