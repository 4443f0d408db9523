"""A small convolution net whose threads were set for a larger machine."""

import torch
from torch import nn

torch.set_num_threads(8)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv1d(8, 32, 5, padding=2), nn.ReLU(), nn.Conv1d(32, 32, 5, padding=2), nn.ReLU(),
    nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 4),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
windows = torch.utils.data.TensorDataset(torch.randn(4_000, 8, 256), torch.randint(4, (4_000,)))
loader = torch.utils.data.DataLoader(windows, batch_size=32)
for epoch in range(100):
    for signal, kind in loader:
        loss = nn.functional.cross_entropy(model(signal), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
