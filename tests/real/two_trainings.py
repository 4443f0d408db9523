"""An encoder that is trained to repair noisy readings, and then a classifier on top of it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
readings, labels = torch.randn(4_096, 64), torch.randint(5, (4_096,))
encoder, decoder = (
    nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 32)),
    nn.Linear(32, 64),
)
loader = DataLoader(TensorDataset(readings, labels), batch_size=64, shuffle=True)

optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
for epoch in range(200):
    for clean, _ in loader:
        optimizer.zero_grad()
        noisy = clean + 0.3 * torch.randn_like(clean)
        nn.functional.mse_loss(decoder(encoder(noisy)), clean).backward()
        optimizer.step()
    print("repairs", epoch)

head = nn.Linear(32, 5)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.01)
for epoch in range(200):
    for clean, label in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(encoder(clean)), label).backward()
        optimizer.step()
    print("classifies", epoch)
