"""Traces of a process are read; those it did not make are said with the reason."""

from __future__ import annotations

from recordings import FIT, observed
from trainperf.evidence.torch import torch
from trainperf.model import Measure, Missing, Torch

IMPORT = {"e": "import", "name": "torch", "version": "2.13.0"}
LOOP = {**FIT, "kind": "iterator", "framework": "torch"}


SPLIT = {"e": "torch_split", "steps": 1}


def split_of(seconds: float, real: float, calls: float = 1.0, gpu: bool = False) -> Torch:
    event = {**SPLIT, "parts": {"forward": [seconds, calls]}}
    found = torch(observed(IMPORT, LOOP, event), Measure(real, 30, (real,)), gpu)
    assert found is not None
    return found


def test_parts_that_do_not_add_up_to_the_step_are_left_out_with_the_reason():
    slow = split_of(5.12, 1.68).split_
    assert isinstance(slow, Missing)
    assert "took 5.12 s each, where a step takes 1.68 s" in slow.reason
    assert isinstance(split_of(0.5, 1.68).split_, Missing)
    assert not isinstance(split_of(1.9, 1.68).split_, Missing)


def test_the_parts_on_a_gpu_may_overlap_in_a_real_step():
    assert not isinstance(split_of(0.016, 0.010, gpu=True).split_, Missing)
