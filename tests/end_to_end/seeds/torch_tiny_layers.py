"""Layers so small that converting what they are given costs more than faster kernels give."""

import torch
from torch import nn

torch.manual_seed(0)

layers = [each for _ in range(24) for each in (nn.Linear(64, 64), nn.LayerNorm(64), nn.Tanh())]
model = nn.Sequential(*layers, nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
batches = [(torch.randn(16, 64), torch.randint(0, 10, (16,))) for _ in range(64)]

for _ in range(20000):
    for vectors, labels in batches:
        optimizer.zero_grad()
        loss = criterion(model(vectors), labels)
        loss.backward()
        optimizer.step()
