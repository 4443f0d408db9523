"""Items that are waited for, in front of a step that takes a known time on the device."""

import sys
import time

import torch
from planted import DEVICE, EMULATED, Steps, Work, parser
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser.add_argument("--item", type=float, default=0.045)
parser.add_argument("--step", type=float, default=0.050)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--items", type=int, default=1_000_000)
parser.add_argument("--epochs", type=int, default=1_000)
parser.add_argument("--until", type=int, default=0, help="end after so many steps")
parser.add_argument("--persistent", action="store_true")
options = parser.parse_args()


class Items(Dataset):
    def __len__(self):
        return options.items

    def __getitem__(self, index):
        time.sleep(options.item)
        return torch.full((8, 16), float(index % 7)) / 7


if __name__ == "__main__":
    model = nn.Sequential(nn.Linear(16, 16), Work(options.step, options.device), nn.Linear(16, 1))
    model = model.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Items(),
        batch_size=None,
        num_workers=options.workers,
        pin_memory=not EMULATED,
        persistent_workers=options.persistent,
    )
    steps = Steps(options.steps)
    for epoch in range(options.epochs):
        for x in loader:
            steps.tick()
            x = x.to(DEVICE, non_blocking=True)
            optimizer.zero_grad()
            (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
            if options.until and steps.number >= options.until:
                sys.exit()
