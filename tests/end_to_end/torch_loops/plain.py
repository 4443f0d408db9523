import torch
from common import Points, loss_function, network
from torch.utils.data import DataLoader

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Points(), batch_size=16, shuffle=True)
held_out = DataLoader(Points(2_560), batch_size=32)
for epoch in range(200):
    for x, y in loader:
        optimizer.zero_grad()
        loss_function(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x, y in held_out:
            loss_function(model(x), y)
    model.train()
