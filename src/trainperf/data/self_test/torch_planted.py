"""A training whose items and steps take a known time, for `trainperf doctor --self-test`."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--item", type=float, default=0.03, help="seconds an item takes")
parser.add_argument("--step", type=float, default=0.05, help="seconds a step takes")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--per-second", type=float, default=0.0, help="cycles of the GPU in a second")
parser.add_argument("--steps", type=int, default=0, help="time so many steps, then end")
parser.add_argument("--calibrate", action="store_true")
options = parser.parse_args()

cuda: Any = torch.cuda
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")


class Items(Dataset[torch.Tensor]):
    """Batches that are waited for, as for a disk."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(options.item)
        return torch.full((8, 16), float(index % 7)) / 7


class Work(nn.Module):
    """The work of a step: a kernel that only counts cycles; on a CPU, a wait."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if GPU:
            cuda._sleep(int(options.step * options.per_second))
        else:
            time.sleep(options.step)
        return x


def wait() -> None:
    """Wait until the device has done what was queued."""
    if GPU:
        torch.cuda.synchronize()


def cycles_per_second() -> float:
    """How fast the GPU counts, by its own events, once it runs at its clock."""
    found: list[float] = []
    for _ in range(12):
        begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        cuda._sleep(100_000_000)
        end.record()
        end.synchronize()
        found.append(100_000_000 / (begin.elapsed_time(end) / 1000))
    return statistics.median(found[6:])


def train() -> None:
    """Train; with `--steps`, say what a step takes between two waits for the device."""
    model = nn.Sequential(nn.Linear(16, 16), Work(), nn.Linear(16, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Items(), batch_size=None, num_workers=options.workers, pin_memory=GPU)
    first, begin = 8, 0.0
    for number, batch in enumerate(loader):
        if number == first:
            wait()
            begin = time.perf_counter()
        if options.steps and number == first + options.steps:
            wait()
            print(json.dumps({"step_s": (time.perf_counter() - begin) / options.steps}))
            return
        x = batch.to(DEVICE, non_blocking=True)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()


if options.calibrate:
    name = torch.cuda.get_device_name() if GPU else ""
    rate = cycles_per_second() if GPU else 0.0
    print(json.dumps({"version": torch.__version__, "gpu": name, "per_second": rate}))
else:
    train()
