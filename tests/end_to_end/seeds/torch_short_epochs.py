"""Short epochs whose workers start anew each time: only `persistent_workers` helps."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        return torch.full((16,), float(index % 7)), torch.tensor([float(index % 3)])


def opens_its_files(worker):
    time.sleep(0.25)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Points(), batch_size=16, shuffle=True, num_workers=2, worker_init_fn=opens_its_files
    )
    for _ in range(1000):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            time.sleep(0.004)
        with torch.no_grad():
            time.sleep(0.1)


if __name__ == "__main__":
    main()
