"""Large linear layers in float32."""

import torch
from planted import DEVICE, Steps, batches, parser
from torch import nn

options = parser.parse_args()
SIDE = 4096

model = nn.Sequential(*(nn.Linear(SIDE, SIDE) for _ in range(6))).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
loader = batches(torch.randn(8 * SIDE, SIDE, device=DEVICE), SIDE)
steps = Steps(options.steps)
for epoch in range(100_000):
    for x in loader:
        steps.tick()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
