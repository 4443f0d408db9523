"""Some 300 tiny kernels a step: forward, backward, and an optimizer that goes one by one."""

import torch
from planted import DEVICE, Steps, parser
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = parser.parse_args()
layers = [layer for _ in range(16) for layer in (nn.Linear(32, 32), nn.Tanh())]
model = nn.Sequential(*layers, nn.Linear(32, 1)).to(DEVICE)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
data = TensorDataset(torch.randn(4_096, 32, device=DEVICE))
slices = [slice(n, n + 64) for n in range(0, 4_096, 64)]
loader = DataLoader(data, sampler=slices, batch_size=None)
steps = Steps(options.steps)
for epoch in range(100_000):
    for (x,) in loader:
        steps.tick()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
