"""Elementwise work and norms on large tensors, between small linear layers."""

import torch
from planted import DEVICE, Steps, batches, parser
from torch import nn
from torch.nn import functional as F

options = parser.parse_args()
ROWS, WIDTH = 65_536, 512


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        y = F.gelu(self.norm(x) * self.scale)
        return x + F.silu(y) * torch.sigmoid(y) + 0.1 * torch.tanh(y)


model = nn.Sequential(*(Block() for _ in range(8)), nn.Linear(WIDTH, 1)).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
loader = batches(torch.randn(4 * ROWS, WIDTH, device=DEVICE), ROWS)
steps = Steps(options.steps)
for epoch in range(100_000):
    for x in loader:
        steps.tick()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
