"""Shared by the scripts: work of a known length on the device, and the time of a plain run."""

import argparse
import json
import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

EMULATED = bool(os.environ.get("KIT_EMULATED"))
FIRST, FIRST_S = 8, 0.0 if EMULATED else 1.0  # clocks rise, kernels are chosen
LEAST_S = 0.0 if EMULATED else 3.0
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=0, help="time so many at least, then end")
parser.add_argument("--device", type=int, default=0)

if EMULATED:
    sys.path.insert(0, os.environ["KIT_EMULATED"])
    from emulation import fake_cuda

    cuda = fake_cuda.install(devices=2)
    DEVICE = torch.device("cpu")
else:
    index = int(sys.argv[sys.argv.index("--device") + 1]) if "--device" in sys.argv else 0
    DEVICE = torch.device("cuda", index)


def queue(seconds, device=0):
    """Let the device work so long; return at once."""
    if EMULATED:
        cuda.launch(seconds, device)
    else:
        with torch.cuda.device(device):
            torch.cuda._sleep(int(seconds * float(os.environ["KIT_PER_SECOND"])))


def wait():
    """Wait until all devices have done what was queued."""
    for device in range(2 if EMULATED else torch.cuda.device_count()):
        torch.cuda.synchronize(device)


def batches(data, rows):
    """A loader of slices of a tensor, so many rows each, which copies nothing."""
    slices = [slice(start, start + rows) for start in range(0, len(data), rows)]
    return DataLoader(data, sampler=slices, batch_size=None)


class Work(nn.Module):
    """A module that takes a known time on the device."""

    def __init__(self, seconds, device=0):
        super().__init__()
        self.seconds, self.device = seconds, device

    def forward(self, x):
        queue(self.seconds, self.device)
        return x


class Steps:
    """With `--steps`, times them, with one wait at each end, and ends the script."""

    def __init__(self, count):
        self.count, self.number = count, -1
        self.start, self.begin, self.first = 0.0, None, 0

    def tick(self):
        """To be called where a step begins."""
        self.number += 1
        if not self.count:
            return
        now = time.perf_counter()
        if self.number == 0:
            self.start = now
        if self.begin is None:
            if self.number >= FIRST and now - self.start >= FIRST_S:
                wait()
                self.begin, self.first = time.perf_counter(), self.number
            return
        many = self.number - self.first
        if many >= self.count and now - self.begin >= LEAST_S:
            wait()
            print(json.dumps({"step_s": (time.perf_counter() - self.begin) / many}))
            sys.exit()
