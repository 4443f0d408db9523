"""A tagger of readings that keeps a checkpoint every ten steps, weights and moments of Adam."""

import os
import tempfile

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Embedding(500, 64), nn.Flatten(), nn.Linear(16 * 64, 1_500), nn.ReLU(), nn.Linear(1_500, 900)
)
head = nn.Linear(900, 12)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-3)
folder = tempfile.mkdtemp()
for step in range(5_000):
    readings = torch.randint(500, (32, 16))
    loss = nn.functional.cross_entropy(head(model(readings)), readings.sum(1) % 12)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, os.path.join(folder, "last.pt"))
    if step % 100 == 0:
        print(step, loss.item())
