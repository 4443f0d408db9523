"""Three lines of the loop that each make the host wait for the device."""

import os

import torch
from planted import DEVICE, Steps, Work, parser
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

options = parser.parse_args()
model = nn.Sequential(nn.Linear(16, 16), Work(0.005), nn.Linear(16, 1)).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(4_096, 16, device=DEVICE))
slices = [slice(n, n + 64) for n in range(0, 4_096, 64)]
loader = DataLoader(data, sampler=slices, batch_size=None)
steps, total = Steps(options.steps), 0.0
modes = os.open(os.environ["KIT_MODES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for epoch in range(100_000):
    for (x,) in loader:
        steps.tick()
        optimizer.zero_grad()
        out = model(x)
        positive = out[out > 0]  # a mask
        many = torch.nonzero(out)  # nonzero
        loss = out.square().mean() + 0 * positive.sum() + 0 * many.sum()
        loss.backward()
        optimizer.step()
        total += loss.item()  # item
        os.write(modes, b"%d" % torch.cuda.get_sync_debug_mode())
