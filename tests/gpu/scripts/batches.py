"""Large batches in ordinary memory; with `--ahead` a side stream copies them beforehand."""

import torch
from planted import DEVICE, Steps, Work, parser
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser.add_argument("--ahead", action="store_true")
parser.add_argument("--megabytes", type=int, default=150)
parser.add_argument("--step", type=float, default=0.030)
options = parser.parse_args()
WIDTH = 1024


class Items(Dataset):
    """Batches that are there already."""

    def __init__(self):
        self.batch = torch.ones(options.megabytes * 2**20 // 4 // WIDTH, WIDTH)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.batch


class Ahead:
    """A loader's batches on the device, each copied while the one before is computed with."""

    def __init__(self, loader):
        self.loader, self.stream = loader, torch.cuda.Stream(DEVICE)

    def __iter__(self):
        following = None
        for batch in self.loader:
            before = following
            with torch.cuda.stream(self.stream):
                following = batch.to(DEVICE, non_blocking=True)
            if before is not None:
                yield before
            torch.cuda.current_stream().wait_stream(self.stream)
            following.record_stream(torch.cuda.current_stream())
        yield following


model = nn.Sequential(nn.Linear(WIDTH, 16), Work(options.step), nn.Linear(16, 1)).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
steps = Steps(options.steps)
if options.ahead:
    loader = DataLoader(Items(), batch_size=None, pin_memory=False)
    loader.dataset.batch = loader.dataset.batch.pin_memory()
    for x in Ahead(loader):
        steps.tick()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
else:
    loader = DataLoader(Items(), batch_size=None, num_workers=2)
    for x in loader:
        steps.tick()
        x = x.to(DEVICE)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
