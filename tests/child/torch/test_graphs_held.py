"""Graphs that are kept, with PyTorch's own tensors."""

import sys

import torch

from trainperf.child.timing.soak.held import held
from trainperf.child.torch import memory


def looked():
    """What the caller's names hold."""
    found = held(sys._getframe(1)).values()
    return {(one.kind, one.name): one for one in found if one.scope.file == __file__}


def test_a_list_of_losses_and_their_sum_keep_their_graphs():
    weight = torch.ones(2, requires_grad=True)
    losses, numbers, total, detached = [], [], 0, 0
    for step in range(5):
        loss = (weight * step).sum()
        losses.append(loss)
        numbers.append(loss.detach())
        total += loss
        detached += loss.detach()
    found = looked()
    assert found["container", "losses"].graph
    assert not found["container", "numbers"].graph
    assert found["graph", "total"].size == 5
    assert ("graph", "detached") not in found
    assert found["graph", "loss"].size == 1


def test_without_a_gpu_there_is_no_memory_of_one_to_tell():
    if not torch.cuda.is_initialized():
        assert memory.held() == {}
