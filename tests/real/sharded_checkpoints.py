"""A forecaster of loads that keeps a checkpoint every twelve steps, in the format of shards."""

import tempfile

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict

torch.manual_seed(0)
model = nn.Sequential(
    nn.Flatten(), nn.Linear(24 * 48, 1_200), nn.GELU(), nn.Linear(1_200, 1_000), nn.GELU()
)
model.append(nn.Linear(1_000, 24))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
folder = tempfile.mkdtemp()
for step in range(4_000):
    loads = torch.randn(48, 24, 48)
    loss = nn.functional.mse_loss(model(loads), loads[:, :, -1].cumsum(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 12 == 11:
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder)
    if step % 100 == 0:
        print(step, loss.item())
