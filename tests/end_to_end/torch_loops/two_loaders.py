import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
one = DataLoader(Points(), batch_size=16)
other = DataLoader(Points(320), batch_size=8)
for epoch in range(200):
    for (x, y), (u, v) in zip(one, other):
        optimizer.zero_grad()
        loss = loss_function(model(x), y) + loss_function(model(u), v)
        loss.backward()
        optimizer.step()
