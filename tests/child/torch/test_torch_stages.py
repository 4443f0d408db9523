"""A loader is taken apart stage by stage, and the user's run does not notice."""

import os
import random
import time

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset

from kit.child import Driver
from trainperf.child.torch.loader import stages as torch_stages
from trainperf.evidence import stages as read_stages
from trainperf.evidence.events import Observed

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


def test_the_random_streams_stand_where_they_stood():
    draw = lambda: (random.random(), np.random.rand(), torch.rand(1))  # noqa: E731
    loader = DataLoader(Slow(draw=draw), batch_size=4, shuffle=True)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = draw()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    driver = taken(loader)
    assert draw() == expected
    assert driver.loader_facts["random"] is True


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


def test_slow_items_are_given_up_in_time():
    began = time.monotonic()
    driver = taken(DataLoader(Slow(0.2), batch_size=40), seconds=1.5)
    assert time.monotonic() - began < 8 * 0.95  # the whole batch takes 8 s
    assert stages(driver)["dataset item"].seconds_per_step >= 8.0


def test_what_can_be_iterated_once_is_left_to_the_loop():
    class Once(IterableDataset):
        rows = iter(range(10))

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.rows)

    driver = taken(DataLoader(dataset := Once(), batch_size=2))
    assert "only once" in driver.record.of("stage_time")[0]["missing"]
    assert next(dataset) == 0
    order = (index for index in range(40))
    driver = taken(DataLoader(Slow(), batch_size=4, sampler=order))
    assert "only once" in driver.record.of("stage_time")[0]["missing"]
    assert next(order) == 0


def test_what_a_dataset_opens_for_workers_does_not_stay_open_here():
    class Lazy(Slow):
        file = None

        def __getitem__(self, index):
            self.file = self.file or open(os.devnull)  # noqa: SIM115
            return index

    dataset = torch.utils.data.Subset(Lazy(), range(10))
    taken(DataLoader(dataset, num_workers=1, persistent_workers=True))
    assert dataset.dataset.file is None
