import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader


def train_step(model, optimizer, x, y):
    optimizer.zero_grad(set_to_none=True)
    loss = loss_function(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


model = network()
for rate in (0.01, 0.001):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loader = DataLoader(Points(), batch_size=16)
    for epoch in range(100):
        total = sum(train_step(model, optimizer, x, y) for x, y in loader)
