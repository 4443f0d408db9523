"""A classifier of signals: anomaly detection was left on, and its validation keeps the graph."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.autograd.set_detect_anomaly(True)
torch.manual_seed(0)
signals, kinds = torch.randn(1_200, 4, 128), torch.randint(3, (1_200,))
training = DataLoader(TensorDataset(signals[:800], kinds[:800]), batch_size=16, shuffle=True)
held_out = DataLoader(TensorDataset(signals[800:], kinds[800:]), batch_size=16)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(4, 8, 5, padding=2)
        self.blocks = nn.ModuleList(nn.Conv1d(8, 8, 3, padding=1) for _ in range(6))
        self.head = nn.Linear(8, 3)

    def forward(self, signal):
        signal = self.first(signal)
        for block in self.blocks:
            signal = signal + torch.tanh(block(signal))
        return self.head(signal.mean(dim=2))


def validate(model):
    model.eval()
    losses = [criterion(model(signal), kind).item() for signal, kind in held_out]
    model.train()
    return sum(losses) / len(losses)


model = Residual()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(200):
    for signal, kind in training:
        optimizer.zero_grad()
        loss = criterion(model(signal), kind)
        loss.backward()
        optimizer.step()
    print(epoch, validate(model))
