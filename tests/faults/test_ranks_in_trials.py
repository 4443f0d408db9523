"""A rank that dies in a trial costs no more than that trial, and leaves nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faults.harness import GOOD, Place, check_came_about

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(600)]

TRAINS = """
import json, os, signal, sys, time
import torch
import torch.distributed as dist

told = json.load(open(os.environ["TRAINPERF_RUN"])) if "TRAINPERF_RUN" in os.environ else {{}}
CHANGED = bool(told.get("leg") and told["sources"])
UNCHANGED = bool(told.get("leg") and not told["sources"])
with open(os.environ["LEGS"], "a") as legs:
    legs.write("changed " if CHANGED else "unchanged " if UNCHANGED else "")


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        row = torch.zeros(64)
        for turn in range(60):
            row = row + torch.sin(torch.tensor(float(index + turn)))
        return row, torch.tensor(1.0)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = Rows()
    sampler = torch.utils.data.DistributedSampler(data)
    loader = torch.utils.data.DataLoader(data, batch_size=16, sampler=sampler)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters())
    step = 0
    for epoch in range(1000):
        for x, y in loader:
            optimizer.zero_grad()
            (model(x)[:, 0] - y).square().mean().backward()
            optimizer.step()
            step += 1
            if {where} and rank == {rank} and step == 15:
                {what}


if __name__ == "__main__":
    main()
"""
ENDS = {
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "raises": "raise ValueError('a fault')",
    "breaks off": "os._exit(0)",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)",
}
CASES = {
    **{f"rank 1 {name} in a changed leg": ("CHANGED", 1, what) for name, what in ENDS.items()},
    "rank 0 is killed in a changed leg": ("CHANGED", 0, ENDS["is killed"]),
    "rank 1 is killed in the script's own": ("UNCHANGED", 1, ENDS["is killed"]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_rank_that_dies_in_a_trial_costs_no_more_than_the_trial(
    place: Place, tmp_path: Path, case: tuple[str, int, str]
) -> None:
    where, rank, what = case
    place.with_script(TRAINS.format(where=where, rank=rank, what=what))
    legs = tmp_path / "legs"
    place.env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "LEGS": str(legs)}
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    result = place.diagnose("--budget", "120s", "--", *torchrun, "train.py")
    place.check(result, GOOD, ["steps"])
    check_came_about(legs, where.lower())
