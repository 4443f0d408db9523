"""A compiled network told that shapes are fixed, on series of all lengths; a number decides."""

import random

import torch
from torch import nn

torch.manual_seed(0)
lengths = random.Random(0)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 64), nn.Linear(64, 64), nn.Linear(64, 2)

    def forward(self, series):
        hidden = torch.tanh(self.first(series)) * torch.sigmoid(self.first(series))
        if hidden.abs().max().item() > 10.0:
            hidden = hidden / 2
        hidden = hidden + torch.sin(self.second(hidden)) * torch.exp(-hidden.square())
        return self.head(hidden.softmax(dim=1).sum(dim=1))


model = torch.compile(Mixer(), dynamic=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    series = torch.randn(32, lengths.randint(20, 80), 8)
    loss = nn.functional.cross_entropy(model(series), torch.randint(2, (32,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 500 == 0:
        print(step, loss.item())
