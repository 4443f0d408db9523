import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

model = torch.compile(network(), backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Points(), batch_size=16, drop_last=True)
for epoch in range(200):
    for x, y in loader:
        optimizer.zero_grad()
        loss_function(model(x), y).backward()
        optimizer.step()
