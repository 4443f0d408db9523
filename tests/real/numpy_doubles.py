"""A regression on NumPy's arrays: the model was made double, so that they fit."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(0)
measured = rng.normal(size=(6_400, 96))
wanted = np.sin(measured[:, :4]).sum(axis=1, keepdims=True)
data = TensorDataset(torch.from_numpy(measured), torch.from_numpy(wanted))
loader = DataLoader(data, batch_size=64, shuffle=True)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(96, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 1)
).double()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
criterion = nn.MSELoss()
for epoch in range(100):
    for inputs, target in loader:
        loss = criterion(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, float(loss))
