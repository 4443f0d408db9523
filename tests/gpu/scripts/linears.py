"""Large linear layers in float32."""

import torch
from planted import DEVICE, Steps, parser
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = parser.parse_args()
SIDE = 4096

model = nn.Sequential(*(nn.Linear(SIDE, SIDE) for _ in range(6))).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
data = TensorDataset(torch.randn(8 * SIDE, SIDE, device=DEVICE))
loader = DataLoader(
    data, sampler=[slice(n * SIDE, (n + 1) * SIDE) for n in range(8)], batch_size=None
)
steps = Steps(options.steps)
for epoch in range(100_000):
    for (x,) in loader:
        steps.tick()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
