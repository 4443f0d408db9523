import sys

import torch
from common import Points, loss_function, network
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Points(), batch_size=16)
for epoch in range(200):
    for x, y in loader:
        optimizer.zero_grad()
        x.requires_grad_(True)
        output = checkpoint(model, x, use_reentrant=sys.argv[1:] == ["reentrant"])
        loss_function(output, y).backward()
        optimizer.step()
