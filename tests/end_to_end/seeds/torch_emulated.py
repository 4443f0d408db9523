"""Train on an emulated device: `KIND` says what its steps are made of."""

import os
import sys
import time

sys.path.insert(0, os.environ["EMULATION"])

import torch

from emulation import fake_cuda

ITEM_S, DEVICE_S, LAUNCHES, COPY_S, DEVICES = {
    "hidden": (0.035, 0.150, 1, 0.0, 1),
    "input": (0.030, 0.040, 1, 0.0, 1),
    "host": (0.0, 0.010, 300, 0.0, 1),
    "transfer": (0.0, 0.020, 1, 0.030, 1),
    "prefetched": (0.0, 0.060, 1, 0.040, 1),
    "two": (0.0, 0.060, 1, 0.0, 2),
}[os.environ["KIND"]]

cuda = fake_cuda.install(devices=DEVICES)
PREFETCHED = os.environ["KIND"] == "prefetched"
cuda.copies(COPY_S, pinned=PREFETCHED)
side = cuda.beside()


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 40_000

    def __getitem__(self, index):
        time.sleep(ITEM_S)
        numbers = torch.Generator().manual_seed(index)
        x = torch.randn(8, generator=numbers)
        return x, x.sum(0, keepdim=True)


def launch_all():
    for _ in range(LAUNCHES):
        for device in range(DEVICES):
            cuda.launch(DEVICE_S / LAUNCHES, device)
        if LAUNCHES > 1:
            launching()


def launching(until=100e-6):
    began = time.perf_counter()
    while time.perf_counter() - began < until:
        pass


def main():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Items(), batch_size=4, shuffle=True)
    for epoch in range(100):
        for x, y in loader:
            if PREFETCHED:
                torch.cuda.current_stream().wait_stream(side)  # the batch that is copied already
                with cuda.stream(side):
                    x.to("meta")
            elif COPY_S:
                x.to("meta")
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            launch_all()
        cuda.item()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
