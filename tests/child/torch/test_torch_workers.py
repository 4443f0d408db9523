"""Worker processes work with the wrapper in place, and are told to record nothing."""

import multiprocessing
import pickle
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data._utils import worker

from kit.child import FakeProcess
from trainperf.child.process.patching import undo
from trainperf.child.torch.loader import loaders

pytestmark = pytest.mark.script


class Telling:
    """Says in a queue, which a forked worker shares, that it helps another process."""

    def __init__(self):
        self.told = multiprocessing.get_context("fork").SimpleQueue()

    def helps(self):
        self.told.put(multiprocessing.current_process().pid)


@pytest.fixture
def process():
    found = Telling()
    loaders.watch(SimpleNamespace(training=found, process=FakeProcess()), worker)
    yield found
    undo(worker, "_worker_loop")


def test_outside_a_worker_nothing_becomes_quiet(process):
    with pytest.raises(TypeError):
        worker._worker_loop()
    assert process.told.empty()


def test_the_wrapper_is_pickled_as_the_function_it_stands_for(process):
    assert pickle.loads(pickle.dumps(worker._worker_loop)) is worker._worker_loop


def many_threads(worker):
    torch.set_num_threads(4)


class Curves(TensorDataset):
    def __getitem__(self, index):
        large = torch.ones(2**20)
        for _ in range(20):
            large = large.tanh()
        return large[0]


def test_threads_that_compute_in_a_worker_are_counted():
    loader = DataLoader(Curves(torch.arange(20)), num_workers=1, worker_init_fn=many_threads)
    iterator = iter(loader)
    for _ in range(12):  # of a single item they have not run for a tenth of what the start took
        next(iterator)
    # The one that hands batches over may compute as long.
    assert loaders.busy_threads(iterator._workers) in (4, 5)
