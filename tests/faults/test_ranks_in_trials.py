"""A rank that dies in a trial costs no more than that trial, and leaves nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faults.harness import GOOD, Place, check_came_about, trains

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(600)]

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
    joins = "dist.init_process_group('gloo')"
    wraps = "model = torch.nn.parallel.DistributedDataParallel(model)"
    fault = f"if {where} and dist.get_rank() == {rank} and step == 15: {what}"
    place.with_script(trains(first=joins, wrap=wraps, fault=fault, turns="60"))
    legs = tmp_path / "legs"
    place.env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "LEGS": str(legs)}
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    result = place.diagnose("--budget", "120s", "--", *torchrun, "train.py")
    place.check(result, GOOD, ["steps"])
    check_came_about(legs, where.lower())
