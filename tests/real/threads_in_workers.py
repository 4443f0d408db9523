"""Recordings of machines, filtered in workers that were given the threads of a larger computer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Machines(Dataset):
    def __init__(self, count=3_200):
        self.waves = torch.randn(count, 4_096)
        self.filters = torch.randn(32, 1, 17)
        self.mixed = torch.randn(32, 32, 5) / 32

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, index):
        bands = nn.functional.conv1d(self.waves[index].view(1, 1, -1), self.filters, stride=4)
        for _ in range(3):
            bands = nn.functional.conv1d(bands, self.mixed, padding=2).tanh()
        return (bands[0] - bands.mean()) / bands.std(), index % 4


def start(worker):
    torch.set_num_threads(8)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(32, 16, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten()
    )
    head = nn.Linear(64, 4)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], fused=True)
    loader = DataLoader(
        Machines(), 32, shuffle=True, num_workers=2, worker_init_fn=start, persistent_workers=True
    )
    for epoch in range(40):
        for bands, kind in loader:
            loss = nn.functional.cross_entropy(head(model(bands)), kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
