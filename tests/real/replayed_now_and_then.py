"""A learner that acts in each turn, and learns from its memory in every tenth."""

import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 2))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
memory, state = [], torch.zeros(4)
for turn in range(60_000):
    with torch.no_grad():
        action = int(network(state).argmax())
    state = 0.9 * state + 0.1 * torch.randn(4) + action
    memory.append(state)
    if turn >= 500 and turn % 10 == 0:
        seen = torch.stack(memory[-64:])
        loss = nn.functional.mse_loss(network(seen), seen[:, :2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
