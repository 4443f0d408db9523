import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

model = network()
loader = DataLoader(Points(), batch_size=16)
for epoch in range(200):
    for x, y in loader:
        loss_function(model(x), y).backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight -= 0.01 * weight.grad
                weight.grad = None
