"""Loaders are seen where they are built, and behave as if they were not."""

import copy
import gc
import io
import pickle
import threading
import weakref

import msgspec
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    Subset,
    TensorDataset,
    dataloader,
    get_worker_info,
)

from kit.child import Driver, Loops
from trainperf.child.process.patching import undo
from trainperf.child.torch.loader import loaders, stages
from trainperf.model import Loader

NUMBERS = TensorDataset(torch.arange(20))


class Own:
    """A map-style dataset of the user's."""

    def __init__(self, **held):
        self.__dict__.update(held)

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return index


class Endless(IterableDataset):
    def __iter__(self):
        yield from range(10)


class Parted(IterableDataset):
    def __iter__(self):
        mine = get_worker_info()
        yield from range(0 if mine is None else mine.id, 10)


def part_of_mine():
    return get_worker_info()


class PartedElsewhere(Endless):
    def _part(self):
        return part_of_mine()


@pytest.fixture
def loops():
    found = Loops()
    loaders.watch_places(found, dataloader)
    yield found
    undo(DataLoader, "__init__")
    undo(DataLoader, "_get_iterator")
    assert found.process.failures == []


def recorded(loops, loader=None):
    driver = Driver(loader, loops)
    loaders.record(driver)
    events = driver.record.of("torch_loader")
    for event in events:  # as evidence/torch.py reads it
        where = event["where"] and {k: v for k, v in event["where"].items() if v is not None}
        msgspec.convert({**event, "where": where}, Loader, strict=False)
    return events


def test_a_loader_that_is_watched_batches_pickles_and_copies_as_ever(loops):
    loader = DataLoader(NUMBERS, batch_size=5, shuffle=False)
    batches = [batch.tolist() for (batch,) in loader]
    for other in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        assert [batch.tolist() for (batch,) in other] == batches
    with pytest.raises(ValueError, match="should not be set"):
        loader.batch_size = 3


def test_no_loader_is_kept_alive(loops):
    loader = DataLoader(NUMBERS)
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None


def test_of_a_loader_that_a_library_wraps_the_users_own_is_the_one_that_trains(loops):
    made = {"DataLoader": DataLoader}
    library = "def prepare(one):\n    return DataLoader(one.dataset)"
    exec(compile(library, "<library>", "exec"), made)
    own = DataLoader(NUMBERS, num_workers=0)
    wrapped = made["prepare"](own)
    by_role = {event["role"]: event for event in recorded(loops, wrapped)}
    assert "end_line" in by_role["training"]["where"]
    assert "end_line" not in by_role[""]["where"]


@pytest.mark.parametrize(
    ("dataset", "sharded"),
    [(Endless(), False), (Parted(), True), (PartedElsewhere(), True), (NUMBERS, None)],
)
def test_whether_an_iterable_dataset_asks_which_worker_it_is_in(loops, dataset, sharded):
    loader = DataLoader(dataset)
    (event,) = recorded(loops, loader)
    assert event["sharded"] is sharded
    assert event["iterable"] is (sharded is not None)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: {"file": path.open()}, "`self.file` is an open file"),
        (lambda path: {"parts": [{"a": path.open("rb")}]}, "`self.parts[0]['a']` is an open file"),
        (lambda path: {"lock": threading.Lock()}, "`self.lock` is a lock"),
        (lambda path: {"rows": (i for i in "ab")}, "`self.rows` is a generator"),
        (
            lambda path: {"db": __import__("sqlite3").connect(":memory:")},
            "`self.db` is an open SQLite connection",
        ),
    ],
)
def test_a_handle_is_found_and_named(loops, tmp_path, make, said):
    path = tmp_path / "file"
    path.touch()
    held = make(path)
    loader = DataLoader(Subset(Own(inner=Own(**held)), [0]))
    shared = recorded(loops, loader)[0]["shared_state"]
    assert shared.startswith(said.replace("self.", "self.dataset.inner."))
    for value in held.values():
        getattr(value, "close", lambda: None)()


@pytest.mark.parametrize(
    "held",
    [
        {},
        {"memory": io.BytesIO()},
        {"data": [b"a"] * 1000, "table": {1: torch.ones(3)}},
        {"lambda": lambda x: x},
        {"log": __import__("logging").getLogger("some")},
        {"transform": torch.nn.Linear(2, 2)},
    ],
)
def test_a_dataset_that_holds_no_handle_can_be_taken_over(loops, held):
    loader = DataLoader(Own(**held))
    assert recorded(loops, loader)[0]["shared_state"] == ""


def test_ranks_that_read_the_same_data_have_the_same_digest_and_others_another():
    def digest(data):
        driver = Driver(DataLoader(TensorDataset(data)))
        stages.record_digest(driver)
        return driver.process.facts["data_digest"]

    data = torch.arange(12.0).reshape(6, 2)
    whole = digest(data)
    assert whole == digest(data.clone())
    assert whole not in (digest(data + 1), digest(data[:5]))
