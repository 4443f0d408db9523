import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        points = Points()
        for index in range(len(points)):
            yield points[index]


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(200):
    for x, y in DataLoader(Stream(), batch_size=16):
        optimizer.zero_grad()
        loss_function(model(x), y).backward()
        optimizer.step()
