"""Each rank reads its own files, one more of them; by an argument a head is there, not used."""

import sys

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

distributed.init_process_group("gloo")
torch.manual_seed(distributed.get_rank())
count = (24_000, 16_000)[distributed.get_rank()]
rows = TensorDataset(torch.randn(count, 32), torch.randint(4, (count,)))
loader = DataLoader(rows, batch_size=16, shuffle=True)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(24))
        self.head = nn.Linear(32, 4)
        if sys.argv[1:]:
            self.pretraining = nn.Linear(32, 32)

    def forward(self, row):
        for layer in self.layers:
            row = row + torch.tanh(layer(row))
        return self.head(row)


model = DistributedDataParallel(Tower(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    for row, kind in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(row), kind).backward()
        optimizer.step()
distributed.destroy_process_group()
