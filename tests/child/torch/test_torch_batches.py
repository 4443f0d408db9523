"""Batches of PyTorch: new containers, new tensors, what was written into."""

from __future__ import annotations

import weakref
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from kit.processes import soon
from trainperf.child.torch import batches as part

Pair = namedtuple("Pair", "x y")


@dataclass
class Sample:
    x: Any
    meta: dict[str, Any]


class Encoding(UserDict):
    """As `BatchEncoding` of transformers: `to` moves it in place."""

    def to(self, dtype: Any) -> Encoding:
        self.data = {name: value.to(dtype) for name, value in self.data.items()}
        return self


class Boxes(list):
    """A list with a method of its own."""

    def first(self) -> Any:
        return self[0]


class Graph:
    """As the batches of graph libraries: keys, and a `clone` of its own."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def keys(self) -> list[str]:
        return ["x"]

    def __getitem__(self, name: str) -> Any:
        return self.x

    def __setitem__(self, name: str, value: Any) -> None:
        raise AssertionError("what stands for a file is not written into")

    def clone(self) -> Graph:
        return Graph(self.x.clone())


class Opaque:
    """A batch of a kind nobody has heard of, which will not be copied."""

    def __copy__(self) -> Any:
        raise RuntimeError("there is only one")

    __deepcopy__ = __reduce_ex__ = __copy__


def tensor() -> Any:
    return torch.arange(4.0)


@pytest.mark.parametrize("make", [part.fresh, part.cloned])
def test_what_cannot_be_copied_is_handed_on_as_it_is(make):
    opaque = Opaque()
    assert make((opaque,))[0] is opaque


@pytest.mark.parametrize("make", [part.fresh, part.cloned])
@pytest.mark.parametrize(
    "batch",
    [
        [tensor()],
        (tensor(), 3),
        {"x": tensor()},
        OrderedDict(x=tensor()),
        defaultdict(list, x=tensor()),
        Pair(tensor(), tensor()),
        Sample(tensor(), {"length": 3}),
        Encoding(x=tensor()),
        Boxes([tensor()]),
        Graph(tensor()),
        torch.Size([2, 3]),
        torch.sort(tensor()),
        torch.nn.utils.rnn.pack_sequence([tensor(), tensor()[:2]]),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_a_copy_has_the_type_and_the_values_of_the_batch(make, batch):
    made = make(batch)
    assert type(made) is type(batch)
    ours, theirs = list(part.leaves(made)), list(part.leaves(batch))
    assert len(ours) == len(theirs)
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("make", [part.fresh, part.cloned])
def test_what_a_loop_takes_out_of_a_batch_is_still_in_the_one_that_is_kept(make):
    kept = {"x": tensor(), "labels": {"y": tensor()}, "list": [1, 2]}
    given = make(kept)
    given.pop("x")
    given["labels"].pop("y")
    given["list"].clear()
    assert list(kept) == ["x", "labels", "list"]
    assert list(kept["labels"]) == ["y"]
    assert kept["list"] == [1, 2]


def test_an_iterator_need_not_keep_its_loader():
    loader = torch.utils.data.DataLoader([1, 2])
    iterator = iter(loader)
    iterator._trainperf_dataset = weakref.ref(loader)
    same = part.dataset_of(iterator) is loader
    assert same
    del loader
    assert soon(lambda: part.dataset_of(iterator) is None)
