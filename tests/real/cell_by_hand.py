"""A recurrent model that calls its cell for each step of the sequence, as textbooks have it."""

import torch

BATCH, STEPS, WIDTH = 32, 60, 96
torch.manual_seed(0)
series = torch.cumsum(torch.randn(2_000, STEPS + 1, 1), dim=1) / 8


class Forecaster(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(1, WIDTH)
        self.head = torch.nn.Linear(WIDTH, 1)

    def forward(self, x):
        state, outputs = x.new_zeros(len(x), WIDTH), []
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            outputs.append(self.head(state))
        return torch.stack(outputs, dim=1)


model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(30):
    order = torch.randperm(len(series))
    for start in range(0, len(series), BATCH):
        rows = series[order[start : start + BATCH]]
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(rows[:, :-1]), rows[:, 1:])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
