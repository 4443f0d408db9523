import sys

import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

HOW = {"mode": "reduce-overhead"} if sys.argv[1:] else {"backend": "aot_eager"}
model = torch.compile(network(), **HOW)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Points(), batch_size=16, drop_last=True)
for epoch in range(200):
    for x, y in loader:
        optimizer.zero_grad()
        loss_function(model(x), y).backward()
        optimizer.step()
