"""Shared by the scripts: points, a small network, a loss."""

import torch
from torch import nn
from torch.utils.data import Dataset


class Points(Dataset):
    def __init__(self, count=640):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x = torch.full((16,), float(index % 7)) / 7
        return x, x.sum(0, keepdim=True)


def network():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))


loss_function = nn.MSELoss()
