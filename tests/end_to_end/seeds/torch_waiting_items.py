"""A dataset that waits for each of its items, as one on a network does."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __len__(self):
        return 64000

    def __getitem__(self, index):
        time.sleep(0.006)
        return torch.full((16,), float(index % 7)), torch.tensor([float(index % 3)])


def main():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Remote(), batch_size=16, num_workers=2)
    for _ in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            time.sleep(0.004)


if __name__ == "__main__":
    main()
