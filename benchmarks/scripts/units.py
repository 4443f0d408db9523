"""Steps of equal units of work, so that a tenth more units is a tenth more time.

UNITS_STEP of them are in the training loop, UNITS_INPUT in the making of a batch.
"""

import os

import torch
from torch.utils.data import DataLoader, TensorDataset, default_collate

torch.set_num_threads(1)
torch.manual_seed(0)
BALLAST = torch.randn(160, 160)


def work(units: int) -> None:
    with torch.no_grad():
        for _ in range(units):
            BALLAST @ BALLAST


def collate(items: list) -> list:
    work(int(os.environ.get("UNITS_INPUT", "20")))
    return default_collate(items)


x = torch.randn(20_000, 64)
data = TensorDataset(x, x.sum(1, keepdim=True))
loader = DataLoader(data, batch_size=32, collate_fn=collate)
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(1000):
    for features, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(features), target).backward()
        optimizer.step()
        work(int(os.environ.get("UNITS_STEP", "20")))
