"""A loader is taken apart stage by stage, and the user's run does not notice."""

import os
import random
import threading
import time
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from loading import Driver, torch
from observing import LONG_S
from processes import soon
from trainperf.child.torch.loader import stages as torch_stages
from trainperf.evidence.events import Observed
from trainperf.evidence.pipeline import stages as read_stages

pytestmark = pytest.mark.script


class Slow:
    """A dataset whose items take a while."""

    def __init__(self, seconds=0.0, draw=None, **held):
        self.seconds = seconds
        self.draw = draw
        self.__dict__.update(held)

    def __len__(self):
        return 40

    def __getitem__(self, index):
        time.sleep(self.seconds)
        if self.draw is not None:
            self.draw()
        return torch.full((8,), float(index))


class Stream(IterableDataset):
    def __iter__(self):
        for index in range(40):
            time.sleep(0.001)
            yield index


def slow_collate(items):
    time.sleep(0.02)
    return torch.stack(items)


def taken(loader, seconds=8.0, **driver):
    driver = Driver(loader, **driver)
    torch_stages.record(driver, time.monotonic() + seconds)
    return driver


def stages(driver):
    """As `evidence` reads them, by op."""

    class Events(Observed):
        def __init__(self):
            pass

        def of(self, kind):
            return iter(driver.record.of(kind))

    return {stage.op: stage for stage in read_stages(Events())}


def reasons(driver, what):
    return [event["reason"] for event in driver.record.of("missing") if event["what"] == what]


def test_each_stage_has_its_own_share_of_a_step():
    driver = taken(
        DataLoader(Slow(0.002), batch_size=10, shuffle=True, collate_fn=slow_collate),
        batches_per_step=2,
    )
    found = stages(driver)
    assert list(found) == ["sampler", "dataset item", "collate"]
    assert found["dataset item"].elements_per_step == 20
    # sleeps only ever last longer
    assert found["dataset item"].seconds_per_step >= 20 * 0.002
    assert found["collate"].seconds_per_step >= 0.9 * 2 * 0.02
    assert found["sampler"].seconds_per_step < found["dataset item"].seconds_per_step
    assert found["dataset item"].function.name.endswith("__getitem__")
    assert found["collate"].function.name == "slow_collate"
    assert found["dataset item"].element_bytes == 8 * 4


def test_what_the_library_does_by_itself_is_not_the_users():
    found = stages(taken(DataLoader(TensorDataset(torch.arange(20.0)), batch_size=5)))
    assert not found["sampler"].by_user
    assert not found["collate"].by_user
    assert found["collate"].arguments["collate_fn"] == "default_collate"
    assert found["dataset item"].function is None


def test_a_loop_without_a_loader_says_so():
    driver = taken(None)
    assert reasons(driver, "stages") == ["the loop takes its batches from no DataLoader"]


def test_the_random_streams_stand_where_they_stood():
    draw = lambda: (random.random(), np.random.rand(), torch.rand(1))  # noqa: E731
    loader = DataLoader(Slow(draw=draw), batch_size=4, shuffle=True)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = draw()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    driver = taken(loader)
    assert draw() == expected
    assert driver.loader_facts["random"] is True


@pytest.mark.parametrize("draw", [random.random, np.random.rand, lambda: torch.rand(1)])
def test_an_item_that_draws_from_any_global_stream_is_random(draw):
    assert taken(DataLoader(Slow(draw=draw))).loader_facts["random"] is True


def test_shuffling_alone_does_not_make_items_random():
    driver = taken(DataLoader(Slow(), batch_size=4, shuffle=True))
    assert driver.loader_facts["random"] is False
    assert "shared_state" not in driver.loader_facts


def test_a_generator_that_the_dataset_draws_from_is_shared_state():
    rng = np.random.default_rng(0)
    driver = taken(DataLoader(Slow(draw=lambda: rng.random(), rng=rng)))
    assert driver.loader_facts["shared_state"].startswith("`self.rng` is a random generator")
    unused = taken(DataLoader(Slow(rng=rng)))
    assert "shared_state" not in unused.loader_facts


@pytest.mark.parametrize(
    ("dataset", "repeats"),
    [
        (Slow(), True),
        (Slow(draw=lambda: random.random()), False),
        (Subset(Slow(), [3, 4, 5, 6]), True),
        (Stream(), None),
    ],
)
def test_items_are_made_again_to_see_whether_they_repeat(dataset, repeats):
    assert taken(DataLoader(dataset, batch_size=2)).loader_facts["repeats"] is repeats


def test_items_that_another_generator_changes_do_not_repeat():
    """One that is no part of the dataset, and no global stream."""
    rng = np.random.default_rng(1)

    class Noisy(Slow):
        def __getitem__(self, index):
            return torch.full((8,), float(rng.normal()))

    assert taken(DataLoader(Noisy(), batch_size=2)).loader_facts["repeats"] is False


@pytest.mark.alone
def test_items_made_on_one_core_need_one_thread():
    spin = lambda: sum(range(20_000))  # noqa: E731
    assert taken(DataLoader(Slow(draw=spin))).loader_facts["item_threads"] == 1


def test_a_file_that_every_item_opens_is_told(tmp_path):
    path = tmp_path / "rows.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("row", "1")
    driver = taken(DataLoader(Slow(draw=lambda: zipfile.ZipFile(path).close()), batch_size=2))
    (found,) = driver.loader_facts["accesses"]
    assert (found["name"], found["calls"]) == ("zipfile.ZipFile", 1.0)
    assert 0 < found["share"] < 1
    assert taken(DataLoader(Slow(), batch_size=2)).loader_facts["accesses"] == []


def test_an_item_that_raises_leaves_a_reason_and_no_time():
    def fail():
        raise OSError("no such picture")

    driver = taken(DataLoader(Slow(draw=fail), batch_size=4))
    assert reasons(driver, "stages") == ["OSError: no such picture"]
    timed = {event["index"]: event for event in driver.record.of("stage_time")}
    assert "seconds" in timed[0]
    assert timed[1]["missing"] == timed[2]["missing"] == "OSError: no such picture"
    assert "random" not in driver.loader_facts


@pytest.mark.alone
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: Subset(one, range(40))])
def test_slow_items_are_given_up_in_time(wrap):
    began = time.monotonic()
    driver = taken(DataLoader(wrap(Slow(0.2)), batch_size=40), seconds=1.5)
    assert time.monotonic() - began < 8 * 0.95  # the whole batch takes 8 s
    assert stages(driver)["dataset item"].seconds_per_step >= 8.0
    assert "missing" not in driver.record.of("stage_time")[2]


def test_an_iterable_dataset_is_iterated_and_has_no_sampler():
    found = stages(taken(DataLoader(Stream(), batch_size=5)))
    assert list(found) == ["dataset item", "collate"]
    assert found["dataset item"].elements_per_step == 5


def test_an_iterable_dataset_that_is_being_iterated_is_left_alone():
    class Once(IterableDataset):
        def __init__(self):
            self.rows = iter(range(10))

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.rows)

    dataset = Once()
    driver = taken(DataLoader(dataset, batch_size=2))
    assert "only once" in reasons(driver, "stages")[0]
    assert next(dataset) == 0


def test_a_generator_for_a_sampler_is_not_drawn_from():
    order = (index for index in range(39, -1, -1))
    driver = taken(DataLoader(Slow(), batch_size=4, sampler=order))
    assert next(order) == 39
    timed = driver.record.of("stage_time")
    assert "only once" in timed[0]["missing"]
    assert "seconds" in timed[1]


def test_batches_fetched_whole_and_loaders_without_batching_are_taken_apart():
    class Whole(Slow):
        def __getitems__(self, indices):
            return [self[index] for index in indices]

    assert stages(taken(DataLoader(Whole(0.001), 10)))["dataset item"].seconds_per_step >= 0.01
    single = stages(taken(DataLoader(Slow(0.001), batch_size=None)))
    assert single["dataset item"].elements_per_step == 1


def test_a_batch_sampler_of_the_users_tells_the_size_of_a_batch():
    found = stages(taken(DataLoader(Slow(), batch_sampler=[[0, 1, 2], [3, 4, 5], [6]])))
    assert found["dataset item"].elements_per_step == 3


def test_workers_are_started_once_more_and_leave_nothing():
    loader = DataLoader(Slow(0.001), batch_size=4, num_workers=2, multiprocessing_context="fork")
    before = _there()
    torch.manual_seed(3)
    driver = taken(loader, seconds=LONG_S)
    assert driver.loader_facts["worker_start_s"] > 0
    found = stages(driver)
    assert list(found) == ["sampler", "dataset item", "collate", "inter-process copy"]
    assert found["inter-process copy"].seconds_per_step >= 0
    assert soon(lambda: _there() <= before), _there() - before


def test_workers_that_are_kept_are_not_started_again():
    loader = DataLoader(Slow(), num_workers=1, persistent_workers=True)
    driver = taken(loader)
    assert "worker_start_s" not in driver.loader_facts
    assert "its workers are kept" in reasons(driver, "worker start")[0]


def test_what_a_dataset_opens_for_workers_does_not_stay_open_here():
    class Lazy(Slow):
        file = None

        def __getitem__(self, index):
            self.file = self.file or open(os.devnull)  # noqa: SIM115
            return index

    dataset = torch.utils.data.Subset(Lazy(), range(10))
    taken(DataLoader(dataset, num_workers=1, persistent_workers=True))
    assert dataset.dataset.file is None


def test_a_stage_nobody_has_time_for_says_so():
    driver = taken(DataLoader(Slow()), seconds=-1.0)
    assert reasons(driver, "stages") == ["too little time was left"]
    assert all("missing" in event for event in driver.record.of("stage_time"))


def test_pinning_is_a_stage_only_with_a_gpu(monkeypatch):
    loader = DataLoader(Slow(), pin_memory=True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch_stages.PIN not in torch_stages.stage_names(loader)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert torch_stages.stage_names(loader)[-1] == torch_stages.PIN


def _there():
    """Descriptors, threads, children and shared memory of this process.

    What other tests left may go meanwhile: only what comes is of interest.
    """
    import gc
    import multiprocessing

    gc.collect()
    opened = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them
            opened.add((fd, os.readlink(f"/proc/self/fd/{fd}")))
    shm = {name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{os.getpid()}_")}
    return opened | set(threading.enumerate()) | set(multiprocessing.active_children()) | shm
