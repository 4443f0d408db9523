"""Ranks that read the same dataset have the same digest of it."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from kit.child import FakeProcess
from trainperf.child.torch.loader import items as torch_digest


class Driver:
    def __init__(self, dataset):
        self.process = FakeProcess()
        self.loader = DataLoader(dataset)


def digest(dataset):
    driver = Driver(dataset)
    torch_digest.record(driver)
    return driver.process.facts.get("data_digest")


def test_the_same_data_has_the_same_digest_and_other_data_another():
    data = torch.arange(12.0).reshape(6, 2)
    whole = digest(TensorDataset(data))
    assert whole == digest(TensorDataset(data.clone()))
    assert whole != digest(TensorDataset(data + 1))
    assert whole != digest(TensorDataset(data[:5]))
