r"""SIGKILL of trainperf at random moments of whole diagnoses: what is left after the next start.

python benchmarks/sigkill.py [N] [--seed 1] [--budget 75s] [--guard 0.7] [--daemon 0.4] [--legs 0.5]

Each time a diagnosis of a small PyTorch script with loader workers is started, and killed at a
random moment, of the observed run or, in some of the cases, from the start of the first leg on; in
some with its guard; in some the script also starts a daemon with an empty environment and a
session of its own. Then the next diagnosis is started in the same folder.
Prints a table: when, what was killed, what was left two seconds later, and after the next start:
processes, stopped ones among them, folders, temporary files, shared memory, mounts.
Nothing else in this pid namespace may start trainperf meanwhile, as that would clear up as well,
and nothing else use /dev/shm:

unshare --pid --fork --mount-proc sh -c \
    "mount -t tmpfs tmpfs /dev/shm; python benchmarks/sigkill.py 100; true"
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from trainperf.run.stopping import GUARD
from trainperf.run.view import mounts

MARK = "TRAINPERF_SIGKILL_MARK"
QUIET = {"OMP_NUM_THREADS": "1"}
"""Threads of OpenMP spin beside busy neighbours: nothing would be found that is worth a trial."""
AFTER_S = 2.0
"""So long after a kill is looked at what is left: the guard needs a moment."""
GONE_S = 10.0
STAND_INS = ("view", "scratch", "board")

TRAINS = """
import subprocess
import torch

class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.many = 640

    def __len__(self):
        return self.many

    def __getitem__(self, index):
        row = torch.zeros(64)
        for turn in range(20):
            row = row + torch.sin(torch.tensor(float(index + turn)))
        return row, torch.tensor(1.0)

def main():
    {daemon}
    held_out = iter(torch.utils.data.DataLoader(Rows(), batch_size=16, num_workers=2))
    next(held_out)  # its workers stay
    loader = torch.utils.data.DataLoader(Rows(), batch_size=16)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(1000):
        for x, y in loader:
            optimizer.zero_grad()
            (model(x)[:, 0] - y).square().mean().backward()
            optimizer.step()

if __name__ == "__main__":
    main()
"""
DAEMON = 'subprocess.Popen(["setsid", "-f", "sleep", "{}"], env={{}})'


@dataclass(frozen=True)
class Left:
    """What is left of a diagnosis; all are counts."""

    processes: int
    stopped: int
    folders: int
    files: int
    shared: int
    mounts: int

    def __str__(self) -> str:
        """The counts that are not 0, by name."""
        told = [f"{count} {name}" for name, count in vars(self).items() if count]
        return ", ".join(told) or "nothing"


class Case:
    """One diagnosis in a folder of its own, killed after `seconds`, or so long after a leg came."""

    def __init__(
        self, number: int, seconds: float, guard: bool, daemon: bool, in_legs: bool
    ) -> None:
        self.seconds, self.guard, self.daemon, self.in_legs = seconds, guard, daemon, in_legs
        self.folder = Path(tempfile.mkdtemp(prefix="sigkill-"))
        self.home, self.runs, self.temporary = (
            self.folder / name for name in ("home", "runs", "tmp")
        )
        for one in (self.home, self.temporary):
            one.mkdir()
        self.mark, self.sleep = uuid.uuid4().hex, f"1000.{os.getpid()}{number:04d}"
        start = DAEMON.format(self.sleep) if daemon else "pass"
        (self.home / "train.py").write_text(TRAINS.format(daemon=start))
        (self.home / "next.py").write_text("raise SystemExit('the next start')\n")
        self._mounts, self._shared = len(list(mounts())), set(os.listdir("/dev/shm"))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a diagnosis whose processes all carry the mark."""
        command = (sys.executable, "-m", "trainperf", "diagnose", "--output-dir", str(self.runs))
        return subprocess.Popen(
            (*command, *words),
            cwd=self.home,
            env={**os.environ, **QUIET, MARK: self.mark, "TMPDIR": str(self.temporary)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill trainperf, and its guard first where that is asked for."""
        for one in self.marked() if self.guard else ():
            with suppress(psutil.Error):
                if GUARD in one.environ():
                    one.kill()
        process.kill()
        process.wait()

    def marked(self) -> list[psutil.Process]:
        """The living processes of this case, its daemon among them."""
        found = []
        for one in psutil.process_iter():
            with suppress(psutil.Error):
                own = one.environ().get(MARK) == self.mark or one.cmdline() == ["sleep", self.sleep]
                if own and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
        return found

    def left(self) -> Left:
        """What is left now."""
        processes = self.marked()
        stopped = 0
        for one in processes:
            with suppress(psutil.Error):
                stopped += one.status() == psutil.STATUS_STOPPED
        within = [one.name for one in self.runs.rglob("*")] if self.runs.exists() else []
        files = [one for one in os.listdir(self.temporary) if "torchinductor" not in one]
        return Left(
            processes=len(processes),
            stopped=stopped,
            folders=sum(name in STAND_INS or name.startswith("leg-") for name in within),
            files=len(files),
            shared=len(set(os.listdir("/dev/shm")) - self._shared),
            mounts=len(list(mounts())) - self._mounts,
        )

    def run(self, budget: str) -> tuple[str, Left, Left]:
        """Diagnose, kill, look, start the next, look again."""
        process = self.start("--budget", budget, "train.py")
        while self.in_legs and process.poll() is None and not self._legs():
            time.sleep(0.05)
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.seconds)
        when = "over" if process.poll() is not None else self._phase()
        self.kill(process)
        time.sleep(AFTER_S)
        before = self.left()
        self.start("--no-trials", "next.py").wait(120)
        until = time.monotonic() + GONE_S
        while (after := self.left()) != Left(0, 0, 0, 0, 0, 0, 0) and time.monotonic() < until:
            time.sleep(0.1)
        return when, before, after

    def _phase(self) -> str:
        """How far it is: legs have their folders, and an observed run has its file."""
        observed = bool(list(self.runs.glob("*/run.json")))
        legs = self._legs()
        return f"{legs} legs" if legs else "observed" if observed else "starting"

    def _legs(self) -> int:
        return len(list(self.runs.glob("*/leg-[0-9]*")))

    def end(self) -> None:
        """End what the diagnoses did not, and remove the folder."""
        for one in self.marked():
            with suppress(psutil.Error):
                one.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def main() -> None:
    """Kill so many diagnoses, and print what was left of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("many", nargs="?", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", default="75s")
    parser.add_argument("--latest", type=float, default=15.0, help="seconds until the last kill")
    parser.add_argument("--legs", type=float, default=0.5, help="share that is killed in trials")
    parser.add_argument("--after", type=float, default=8.0, help="seconds after the first leg")
    parser.add_argument("--guard", type=float, default=0.7, help="share with the guard killed")
    parser.add_argument("--daemon", type=float, default=0.0, help="share with a daemon that hides")
    given = parser.parse_args()
    chance = random.Random(given.seed)
    print("  n  at      killed            daemon  in        left at once -> after the next start")
    found = []
    for number in range(1, given.many + 1):
        in_legs = chance.random() < given.legs
        seconds = chance.uniform(0.0, given.after) if in_legs else chance.uniform(0.3, given.latest)
        guard, daemon = chance.random() < given.guard, chance.random() < given.daemon
        case = Case(number, seconds, guard, daemon, in_legs)
        try:
            when, before, after = case.run(given.budget)
        finally:
            case.end()
        found.append((guard, daemon, when, before, after))
        killed = "trainperf, guard" if guard else "trainperf"
        print(
            f"{number:3}  {seconds:5.1f} s {killed:17} {'yes' if daemon else 'no':7} {when:9} "
            f"{before} -> {after}",
            flush=True,
        )
    _sum_up(found)


def _sum_up(found: list[tuple[bool, bool, str, Left, Left]]) -> None:
    nothing = Left(0, 0, 0, 0, 0, 0, 0)
    print(f"\n{len(found)} kills, {sum(guard for guard, *_ in found)} with the guard")
    print(f"over before the kill: {sum(when == 'over' for _, _, when, _, _ in found)}")
    for guard in (False, True):
        those = [one for one in found if one[0] is guard]
        left = sum(one[3].processes > 0 for one in those)
        words = "with the guard" if guard else "trainperf alone"
        print(f"{words}: processes left two seconds later in {left} of {len(those)}")
    clean = sum(after == nothing for *_, after in found)
    print(f"nothing left after the next start: {clean} of {len(found)}")


if __name__ == "__main__":
    main()
