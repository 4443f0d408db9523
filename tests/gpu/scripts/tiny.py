"""Some 300 tiny kernels a step: forward, backward, and an optimizer that goes one by one."""

import torch
from planted import DEVICE, Steps, batches, parser
from torch import nn

options = parser.parse_args()
layers = [layer for _ in range(16) for layer in (nn.Linear(32, 32), nn.Tanh())]
model = nn.Sequential(*layers, nn.Linear(32, 1)).to(DEVICE)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
loader = batches(torch.randn(4_096, 32, device=DEVICE), 64)
steps = Steps(options.steps)
for epoch in range(100_000):
    for x in loader:
        steps.tick()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
