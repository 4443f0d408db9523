"""Small pictures, augmented one by one in workers, beside a small net that takes all cores."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, count=8_000):
        noise = np.random.default_rng(0)
        self.pictures = noise.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        self.kinds = noise.integers(0, 10, count)

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        padded = np.pad(self.pictures[index], ((0, 0), (4, 4), (4, 4)))
        top, left = random.randrange(9), random.randrange(9)
        cut = padded[:, top : top + 32, left : left + 32]
        if random.random() < 0.5:
            cut = cut[:, :, ::-1]
        grey, colour = cut.mean(0, keepdims=True), random.uniform(0.6, 1.4)
        light = random.uniform(0.8, 1.2) / 255
        picture = light * (grey + colour * (cut - grey)) + np.random.normal(0, 0.02, cut.shape)
        return torch.from_numpy(picture).float().sub_(0.5).div_(0.25), self.kinds[index]


def main():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    loader = DataLoader(Pictures(), 128, shuffle=True, num_workers=2, persistent_workers=True)
    for epoch in range(20):
        for pictures, kinds in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(pictures), kinds)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
