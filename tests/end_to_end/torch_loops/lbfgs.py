import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

model = network()
optimizer = torch.optim.LBFGS(
    model.parameters(), lr=0.01, max_iter=4, tolerance_grad=0, tolerance_change=0
)
loader = DataLoader(Points(), batch_size=64)
for epoch in range(500):
    for x, y in loader:

        def closure():
            optimizer.zero_grad()
            loss = loss_function(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
