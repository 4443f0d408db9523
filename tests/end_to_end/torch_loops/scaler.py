import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
loader = DataLoader(Points(), batch_size=16)
for epoch in range(200):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_function(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
