import torch
from common import Points, network
from torch.utils.data import DataLoader

model = network()
with torch.no_grad():
    for epoch in range(3):
        for x, y in DataLoader(Points(), batch_size=16):
            model(x)
