"""All devices that a process uses are waited for."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from trainperf.child.torch.device import TorchDevice  # noqa: E402


def test_there_is_nothing_to_wait_for_without_a_gpu():
    before = torch.cuda.is_initialized()
    TorchDevice().wait()
    assert torch.cuda.is_initialized() == before


def made_up(monkeypatch, **private):
    """A `torch` with three GPUs, of which some are used; the devices that are waited for."""
    waited = []
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        device_count=lambda: 3,
        synchronize=lambda index=None: waited.append(index),
    )
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(cuda=cuda, _C=SimpleNamespace(**private))
    )
    TorchDevice().wait()
    return waited


def test_every_gpu_that_is_used_is_waited_for(monkeypatch):
    used = (1, 2)
    assert made_up(monkeypatch, _cuda_hasPrimaryContext=lambda index: index in used) == [1, 2]


def test_a_pytorch_that_does_not_tell_waits_for_the_current_one(monkeypatch):
    assert made_up(monkeypatch) == [None]
