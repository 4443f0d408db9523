"""Two ranks that do the same: each reads all of the data and writes the weights now and then."""

import tempfile

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

distributed.init_process_group("gloo")
torch.manual_seed(0)
images, kinds = torch.randn(480, 3, 24, 24), torch.randint(5, (480,))
loader = DataLoader(TensorDataset(images, kinds), batch_size=16, shuffle=True)
network = nn.Sequential(
    nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 5),
)  # fmt: skip
model = DistributedDataParallel(network)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
weights = f"{tempfile.mkdtemp()}/weights.pt"
for epoch in range(400):
    for step, (image, kind) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(image), kind)
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            torch.save(model.module.state_dict(), weights)
distributed.destroy_process_group()
