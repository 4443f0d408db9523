"""A training that holds a share of the card, and waits for its items."""

import time

import torch
from planted import DEVICE, EMULATED, Steps, Work, parser
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser.add_argument("--share", type=float, default=0.2)
options = parser.parse_args()


class Items(Dataset):
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        time.sleep(0.05)
        return torch.full((8, 16), float(index % 7)) / 7


total = torch.cuda.get_device_properties(0).total_memory
held = torch.empty(int(options.share * total), dtype=torch.uint8, device=DEVICE)
model = nn.Sequential(nn.Linear(16, 16), Work(0.02), nn.Linear(16, 1)).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = Steps(options.steps)
loader = DataLoader(Items(), batch_size=None, num_workers=0, pin_memory=not EMULATED)
for x in loader:
    steps.tick()
    x = x.to(DEVICE, non_blocking=True)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
