"""Batches of PyTorch: new containers, new tensors, what was written into."""

from __future__ import annotations

import copy
import weakref
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from processes import soon  # noqa: E402
from trainperf.child.torch import batches as part  # noqa: E402

Pair = namedtuple("Pair", "x y")


@dataclass
class Sample:
    x: Any
    meta: dict[str, Any]


class Encoding(UserDict):  # type: ignore[type-arg]
    """As `BatchEncoding` of transformers: `to` moves it in place."""

    def to(self, dtype: Any) -> Encoding:
        self.data = {name: value.to(dtype) for name, value in self.data.items()}
        return self


class Boxes(list):  # type: ignore[type-arg]
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

    __deepcopy__ = __reduce_ex__ = __copy__  # type: ignore[assignment]


def tensor() -> Any:
    return torch.arange(4.0)


@pytest.mark.parametrize("make", [part.fresh, part.cloned])
@pytest.mark.parametrize("value", ["text", b"bytes", 3, 0.5, None, True])
def test_plain_values_stay(make, value):
    assert make([value]) == [value]


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


def test_new_containers_share_their_tensors():
    batch = {"x": tensor(), "more": [tensor(), (tensor(),)]}
    for one, other in zip(part.leaves(part.fresh(batch)), part.leaves(batch), strict=True):
        assert one is other


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


@pytest.mark.parametrize("make", [part.fresh, part.cloned])
def test_an_encoding_that_a_loop_moves_in_place_is_kept_where_it_was(make):
    kept = Encoding(x=tensor())
    given = make(kept)
    given.to(torch.float64)
    given.pop("x")
    assert kept["x"].dtype == torch.float32


@pytest.mark.parametrize("make", [part.fresh, part.cloned])
def test_a_dataclass_that_a_loop_changes_is_kept_as_it_was(make):
    kept = Sample(tensor(), {"length": 3})
    given = make(kept)
    given.x = given.x.to(torch.float64)
    given.meta.pop("length")
    assert kept.x.dtype == torch.float32
    assert kept.meta == {"length": 3}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: (x, 1),
        lambda x: [x],
        lambda x: {"x": x},
        lambda x: OrderedDict(x=[x]),
        lambda x: Pair(x, 1),
        lambda x: Sample(x, {}),
        lambda x: Encoding(x=x),
        lambda x: Boxes([x]),
        Graph,
    ],
)
def test_a_clone_is_unspoilt_by_what_is_written_into_the_other(wrap):
    kept = wrap(tensor())
    given = part.cloned(kept)
    for leaf in part.leaves(given):
        leaf.mul_(0)
    (leaf,) = part.leaves(kept)
    assert torch.equal(leaf, tensor())


def test_a_clone_is_a_leaf_that_can_be_derived_after():
    batch = [tensor(), tensor().requires_grad_()]
    plain, derived = part.cloned(batch)
    assert plain.is_leaf
    assert not plain.requires_grad
    assert derived.is_leaf
    assert derived.requires_grad
    assert derived is not batch[1]


def test_writing_into_any_tensor_of_a_batch_shows():
    batch = {"x": tensor(), "more": Pair(tensor(), [tensor()])}
    before = part.versions(batch)
    assert part.versions(batch) == before
    batch["more"].y[0].add_(1)
    assert part.versions(batch) != before


def test_asking_for_the_gradient_of_an_input_shows():
    """Or its gradients would be summed over the replays."""
    batch = [tensor()]
    before = part.versions(batch)
    batch[0].requires_grad_()
    assert part.versions(batch) != before


def test_reading_a_batch_does_not_show():
    batch = [tensor(), torch.tensor([1])]
    before = part.versions(batch)
    (batch[0] * 2).sum().item()
    batch[0].to(torch.float64).add_(1)
    assert part.versions(batch) == before


def test_tensors_without_a_version_are_passed_over():
    with torch.inference_mode():
        batch = [tensor()]
    assert part.versions(batch) == part.versions(copy.copy(batch))


def test_bytes_are_those_of_all_tensors():
    half = tensor().half()
    batch = {"x": tensor(), "y": Encoding(h=half), "n": 3, "s": Sample(tensor(), {"z": half})}
    assert part.size_in_bytes(batch) == 16 + 8 + 16 + 8
    assert part.size_in_bytes("no tensors") == 0


def test_a_batch_that_holds_itself_ends():
    batch: list[Any] = [tensor()]
    batch.append(batch)
    assert len(list(part.leaves(batch))) <= part.DEEPEST
    assert len(part.fresh(batch)) == 2
    assert len(part.cloned(batch)) == 2


def test_an_iterator_is_of_its_loader_and_not_of_the_dataset():
    loader = torch.utils.data.DataLoader([1, 2])
    iterator = iter(loader)
    assert part.dataset_of(iterator) is None
    iterator._trainperf_dataset = loader
    assert part.dataset_of(iterator) is loader


def test_an_iterator_need_not_keep_its_loader():
    loader = torch.utils.data.DataLoader([1, 2])
    iterator = iter(loader)
    iterator._trainperf_dataset = weakref.ref(loader)
    same = part.dataset_of(iterator) is loader
    assert same
    del loader
    assert soon(lambda: part.dataset_of(iterator) is None)
