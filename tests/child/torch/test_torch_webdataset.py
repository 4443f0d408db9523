"""Pipelines over tar shards: who divides them, how many there are, what their steps take."""

from __future__ import annotations

import io
import sys
import tarfile
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainperf.child.torch.loader import datasets, webdataset  # noqa: E402
from trainperf.child.torch.loader.items import Items  # noqa: E402
from trainperf.child.torch.loader.pipeline_times import PipelineTimes  # noqa: E402

LIBRARY = """
import copy
import torch


class DataPipeline(torch.utils.data.IterableDataset):
    def __init__(self, *steps):
        self.pipeline, self.repetitions, self.nsamples = list(steps), 1, -1

    def __iter__(self):
        source = iter(self.pipeline[0])
        for step in self.pipeline[1:]:
            source = step(source)
        yield from source

    def map(self, function):
        made = copy.copy(self)
        made.pipeline = [*self.pipeline, FilterFunction(_map, function)]
        return made

    def with_epoch(self, count):
        self.repetitions, self.nsamples = 10**9, count
        return self


class FilterFunction:
    def __init__(self, f, *args, **kw):
        self.f, self.args, self.kw = f, args, kw

    def __call__(self, data):
        return self.f(data, *self.args, **self.kw)


def _map(data, function):
    for one in data:
        yield function(one)


class SimpleShardList:
    def __init__(self, urls):
        self.urls = list(urls)

    def __iter__(self):
        yield from self.urls


class ResampledShards(SimpleShardList):
    pass


def split_by_worker(source):
    yield from source


class Decoder:
    def __init__(self, *handlers):
        self.handlers = list(handlers)

    def __call__(self, sample):
        return self.handlers[0](sample)
"""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the library's name that makes pipelines as it does."""
    module = ModuleType("webdataset")
    monkeypatch.setitem(sys.modules, "webdataset", module)
    exec(compile(LIBRARY, "/usr/lib/python3/site-packages/webdataset.py", "exec"), vars(module))
    return module


def loader(dataset: Any) -> Any:
    return torch.utils.data.DataLoader(dataset, batch_size=4)


def decode(sample: Any) -> Any:
    time.sleep(0.002)
    return sample


def own_split(source: Any) -> Any:
    info = torch.utils.data.get_worker_info()
    yield from list(source)[0 if info is None else info.id :: 2]


def test_other_datasets_are_no_pipelines() -> None:
    other = SimpleNamespace(pipeline=[1, 2])
    for one in (other, [1, 2], torch.utils.data.TensorDataset(torch.zeros(3))):
        assert not webdataset.is_pipeline(one)
        assert webdataset.shards(one) is webdataset.counted(one) is None
        assert list(webdataset.functions(one)) == []


def test_shards_count_where_workers_divide_them(library: Any) -> None:
    urls = library.SimpleShardList(f"{n}.tar" for n in range(3))
    divided = library.DataPipeline(urls, library.split_by_worker)
    assert datasets.sharded(loader(divided)) is True
    assert webdataset.shards(divided) == 3
    assert webdataset.shards(library.DataPipeline(divided).map(decode)) == 3  # one in another
    assert datasets.sharded(loader(library.DataPipeline(urls))) is False
    assert datasets.sharded(loader(library.DataPipeline(urls, own_split))) is True


def test_drawn_shards_limit_no_worker(library: Any) -> None:
    drawn = library.DataPipeline(library.ResampledShards(["a.tar"]))
    assert datasets.sharded(loader(drawn)) is True
    assert webdataset.shards(drawn) is None


def test_samples_of_an_epoch_are_counted_where_a_number_was_given(library: Any) -> None:
    assert webdataset.counted(library.DataPipeline([1])) is None
    assert webdataset.counted(library.DataPipeline([1]).with_epoch(640)) == 640


def test_a_function_of_the_users_in_a_step_makes_the_items(library: Any) -> None:
    plain = library.DataPipeline([1, 2])
    assert datasets.users_item(plain) is None
    for made in (plain.map(decode), plain.map(library.Decoder(decode))):
        assert datasets.users_item(made) is decode.__code__


def test_each_step_has_its_own_time_and_the_dataset_stays_as_it_is(library: Any) -> None:
    dataset = library.DataPipeline(list(range(40)), library.split_by_worker).map(decode)
    before = list(dataset.pipeline)
    items = Items(dataset, loader(dataset))
    times = PipelineTimes.of(items)
    assert times is not None
    items.make([], 5.0)
    dearest, *others = times.found()

    assert dataset.pipeline == before
    assert items.made == 40
    assert dearest["name"] == "map"
    assert dearest["where"]["function"] == "decode"
    assert dearest["share"] > 0.5
    assert dearest["seconds"] > 10 * max(one["seconds"] for one in others)
    assert {one["name"] for one in others} == {"list", "split_by_worker"}
    assert PipelineTimes.of(Items([1, 2], loader(dataset))) is None


def test_the_library_itself_is_understood(tmp_path: Any) -> None:
    wds = pytest.importorskip("webdataset")
    for shard in range(2):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for index in range(6):
                member = tarfile.TarInfo(f"{shard}{index}.txt")
                member.size = 1
                tar.addfile(member, io.BytesIO(b"1"))
    urls = [str(tmp_path / f"{shard}.tar") for shard in range(2)]
    dataset = wds.WebDataset(urls, shardshuffle=2).shuffle(4).map(decode)
    assert webdataset.shards(dataset) == 2
    assert datasets.sharded(loader(dataset)) is True
    assert datasets.users_item(dataset) is decode.__code__
    assert webdataset.counted(dataset.with_epoch(8)) == 8

    plain = wds.WebDataset(urls, shardshuffle=2, workersplitter=None).map(decode)
    assert datasets.sharded(loader(plain)) is False
    drawn = wds.WebDataset(urls, resampled=True).map(decode)
    assert webdataset.shards(drawn) is None
    assert datasets.sharded(loader(drawn)) is True

    items = Items(plain, wds.WebLoader(plain, batch_size=2).pipeline[0])
    times = PipelineTimes.of(items)
    assert times is not None
    items.make([], 5.0)
    assert items.made == 12
    assert times.found()[0]["name"] == "map"
