"""Faults that come in a trial only cost no more than that trial, and leave nothing behind.

Those of a rank too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faults.harness import Place, check_came_about, trains

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


HIDDEN = 'subprocess.Popen(["setsid", "-f", "sleep", "1000.75"], env={})'
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
ENDS = {
    "raises": "raise ValueError('a fault')",
    "hangs": "time.sleep(1000)",
    "is killed": "os.kill(os.getpid(), signal.SIGSEGV)",
    "exits well": "sys.exit(0)",
    "breaks off": "os._exit(0)",
    "stops itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "takes all memory it gets": "x = [bytearray(1 << 28) for _ in range(1 << 20)]",
    "leaves a daemon": HIDDEN,
    "prints much": "print('x' * (1 << 20))",
}
CASES = {
    **{f"a changed leg {name}": {"fault": f"if CHANGED and step == 20: {what}"}
       for name, what in ENDS.items()},
    **{f"the script itself {name}": {"fault": f"if UNCHANGED and step == 20: {what}"}
       for name, what in ENDS.items() if name != "takes all memory it gets"},
    "a changed leg's losses are none": {"loss": "loss = loss * float('nan') if CHANGED else loss"},
    "a changed leg has other batches": {"batch": "32 if CHANGED else 16"},
    "a leg's data are damaged": {"item": "if CHANGED and index == 500: raise OSError('damaged')"},
    "a port is taken": {"first": "taken = socket.create_server(('127.0.0.1', 47123))"},
    "a file is locked": {
        "first": "lock = open('lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    },
    "a file elsewhere is locked": {
        "first": "lock = open(os.environ['LOCKED'], 'w'); "
        "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    },
    "a database is written": {
        "first": "base = sqlite3.connect('b.db'); base.execute('create table if not exists t (n)')",
        "fault": "base.execute('insert into t values (1)'); base.commit()",
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fault_in_a_trial_costs_no_more_than_the_trial(
    place: Place, tmp_path: Path, case: dict[str, str]
) -> None:
    place.with_script(trains(**case))
    legs = tmp_path / "legs"
    place.env |= {"LOCKED": str(tmp_path / "locked"), "LEGS": str(legs), "OMP_NUM_THREADS": "1"}
    place.sleeps = ("1000.75",)
    result = place.diagnose("--budget", "90s", "--json", str(tmp_path / "r.json"))
    place.check(result, says=["steps"])
    check_came_about(legs, "changed" if "if CHANGED" in str(case) else "unchanged")


RANKS = {
    **{f"rank 1 {name} in a changed leg": ("CHANGED", 1, ENDS[name])
       for name in ("raises", "breaks off", "stops itself")},
    **{f"rank {rank} is killed in a leg that is {where}": (where.upper(), rank, KILLED)
       for rank, where in ((0, "changed"), (1, "changed"), (1, "unchanged"))},
}  # fmt: skip


@pytest.mark.alone
@pytest.mark.parametrize(("where", "rank", "what"), RANKS.values(), ids=RANKS)
def test_a_rank_that_dies_in_a_trial_costs_no_more_than_the_trial(
    place: Place, tmp_path: Path, where: str, rank: int, what: str
) -> None:
    joins = "dist.init_process_group('gloo')"
    wraps = "model = torch.nn.parallel.DistributedDataParallel(model)"
    fault = f"if {where} and dist.get_rank() == {rank} and step == 15: {what}"
    place.with_script(trains(first=joins, wrap=wraps, fault=fault, turns="60"))
    legs = tmp_path / "legs"
    place.env |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "LEGS": str(legs)}
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    result = place.diagnose("--budget", "120s", "--", *torchrun, "train.py")
    place.check(result, says=["steps"])
    check_came_about(legs, where.lower())
