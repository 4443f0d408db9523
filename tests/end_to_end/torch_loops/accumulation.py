import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

EVERY = 4
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Points(), batch_size=16)
for epoch in range(400):
    for number, (x, y) in enumerate(loader):
        loss = loss_function(model(x), y) / EVERY
        loss.backward()
        if (number + 1) % EVERY == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
