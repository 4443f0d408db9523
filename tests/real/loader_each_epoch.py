"""Short epochs, for each of which a loader with workers is built anew."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(2_000, 32)
data = TensorDataset(inputs, inputs[:, :4].sum(dim=1).gt(0).long())
model = torch.nn.Sequential(
    torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
    torch.nn.Linear(256, 2),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(40):
    loader = DataLoader(data, batch_size=50, shuffle=True, num_workers=2)
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
