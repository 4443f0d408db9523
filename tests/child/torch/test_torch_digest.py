"""Ranks that read the same dataset have the same digest of it."""

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset  # noqa: E402

from fakes import FakeProcess  # noqa: E402
from trainperf.child.torch.loader import digest as torch_digest  # noqa: E402


class Driver:
    def __init__(self, dataset):
        self.process = FakeProcess()
        self.loader = DataLoader(dataset)


def digest(dataset):
    driver = Driver(dataset)
    torch_digest.record(driver)
    return driver.process.facts.get("data_digest")


class Words(Dataset):
    def __getitem__(self, index):
        return "word", torch.ones(2, dtype=torch.bfloat16)

    def __len__(self):
        return 2


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.ones(1)])


def test_the_same_data_has_the_same_digest_and_other_data_another():
    data = torch.arange(12.0).reshape(6, 2)
    whole = digest(TensorDataset(data))
    assert whole == digest(TensorDataset(data.clone()))
    assert whole != digest(TensorDataset(data + 1))
    assert whole != digest(TensorDataset(data[:5]))


def test_a_stream_has_no_items_to_compare():
    assert digest(Stream()) is None


def test_items_of_any_kind_are_taken():
    assert digest(Words()) is not None


class Numbers(Dataset):
    def __init__(self, first):
        self.first = first

    def __getitem__(self, index):
        return [self.first + index]

    def __len__(self):
        return 4


def test_items_without_tensors_are_compared_as_well():
    assert digest(Numbers(0)) == digest(Numbers(0))
    assert digest(Numbers(0)) != digest(Numbers(4))
