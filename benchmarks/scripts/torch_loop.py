"""A PyTorch loop over a DataLoader that stamps the end of every step; see fit.py."""

import argparse
import time

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--seconds", type=float, default=5.0)
parser.add_argument("--stamps", required=True)
args = parser.parse_args()

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

# One core for the step: on a small or busy machine the share of a second one comes and goes.
torch.set_num_threads(1)
stamps = np.memmap(args.stamps, dtype="float64", mode="r+")


class Batches(Dataset):
    """Whole batches, made beforehand: the loader costs little beside the step."""

    def __init__(self):
        self.x = torch.randn(16, args.batch, args.width)
        self.y = torch.randint(0, 10, (16, args.batch))

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.x[index % 16], self.y[index % 16]


model = nn.Sequential(
    nn.Linear(args.width, args.width),
    nn.ReLU(),
    nn.Linear(args.width, args.width),
    nn.ReLU(),
    nn.Linear(args.width, 10),
)
loss_of = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for count, (features, labels) in enumerate(DataLoader(Batches(), batch_size=None)):
    optimizer.zero_grad()
    loss_of(model(features), labels).backward()
    optimizer.step()
    stamps[count] = now = time.perf_counter()
    if now - stamps[0] > args.seconds:
        break
