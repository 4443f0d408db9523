"""Worker processes work with the wrapper in place, and are told to record nothing."""

import multiprocessing
import pickle
from multiprocessing import forkserver, resource_tracker, util

import psutil
import pytest
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data._utils import worker

from loading import torch
from trainperf.child.process.patching import undo
from trainperf.child.torch.loader import workers

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
    workers.quiet(found, worker)
    yield found
    undo(worker, "_worker_loop")


@pytest.fixture
def helpers_end():
    """End what multiprocessing keeps beside workers until Python ends: here, all tests.

    In the order of Python's end: semaphores first, which would start the tracker once more
    where they went later; the server of `forkserver`, which has the tracker's pipe open.
    """
    before = psutil.Process().children(recursive=True)
    yield
    util._run_finalizers(0)
    forkserver._forkserver._stop()
    resource_tracker._resource_tracker._stop()
    left = set(psutil.Process().children(recursive=True)).difference(before)
    assert [one for one in left if one.is_running()] == []


def test_outside_a_worker_nothing_becomes_quiet(process):
    with pytest.raises(TypeError):
        worker._worker_loop()
    assert process.told.empty()


def test_the_wrapper_is_pickled_as_the_function_it_stands_for(process):
    assert pickle.loads(pickle.dumps(worker._worker_loop)) is worker._worker_loop


@pytest.mark.usefixtures("helpers_end")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_deliver_whatever_way_they_are_started(process, method):
    dataset = TensorDataset(torch.arange(12))
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context=method)
    assert [batch.tolist() for (batch,) in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    if method == "fork":
        assert len({process.told.get(), process.told.get()}) == 2


def test_an_observer_that_fails_stops_no_worker(process):
    process.quiet = lambda: 1 / 0
    loader = DataLoader(TensorDataset(torch.arange(4)), 2, num_workers=1)
    assert len(list(loader)) == 2


def test_a_worker_that_crashes_is_reported_as_a_failed_start():
    import time

    loader = DataLoader(Crashing(), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        workers.first_batch_s(loader, time.monotonic() + 20)
    assert multiprocessing.active_children() == []


def test_the_loaders_own_generator_is_put_back():
    import time

    generator = torch.Generator().manual_seed(5)
    loader = DataLoader(
        TensorDataset(torch.arange(8)), shuffle=True, num_workers=1, generator=generator
    )
    before = generator.get_state()
    assert workers.first_batch_s(loader, time.monotonic() + 20) > 0
    assert torch.equal(generator.get_state(), before)


class Crashing:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        import os

        os._exit(3)
