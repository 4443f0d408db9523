"""Measures joining the records of many ranks: time and peak memory, by the ranks.

Records of simulated ranks are written into a temporary folder: 1,000 steps each, in
the phases and blocks of a real run, with the samples of ten seconds. Then `merge` runs
in a process of its own for each number of ranks. Both figures should be linear in the
ranks, and memory should hardly grow: one record is read at a time.

    python benchmarks/merge.py [RANKS …]
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _runs import machine

from trainperf import store
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Event, GpuSample, HostSample, Recording, Run, Sample
from trainperf.ranks import Place, records
from trainperf.ranks.merge import merge

RANKS = (64, 256, 1024)
STEPS = {"real": 450, "resident": 200, "local": 250, "profile": 100}
SECONDS = {"real": 0.030, "resident": 0.028, "local": 0.020, "profile": 0.033}
ROUNDS = 3
PER_HOST = 8
SAMPLES = 100
TARGET = 1.25
"""CPU time per rank at most grows so much from the fewest ranks to the most."""


def events_of(rank: int, size: int, drawn: random.Random) -> list[Event]:
    """The record of a rank of a job; its clock has nothing to do with that of other hosts."""
    at = 1e5 * (1 + rank // PER_HOST)
    place = {"rank": rank, "world_size": size, "local_rank": rank % PER_HOST}
    said: list[Event] = [
        {"e": "hello", "t": at, "pid": 1000 + rank},
        {"e": "import", "t": at, "name": "torch", "version": "2.13.0"},
        {"e": "rank", "t": at, **place, "host": f"host{rank // PER_HOST}", "cores": [0, 1]},
        {"e": "loop", "t": at, "kind": "iterator", "framework": "torch", "phases": list(STEPS)},
    ]
    for block in range(ROUNDS):
        for phase, count in STEPS.items():
            said.append({"e": "phase", "t": at, "p": phase, "b": block})
            began, many = at, count // ROUNDS
            for _ in range(many):
                start, at = at, at + SECONDS[phase] * drawn.gauss(1, 0.02)
                said.append(
                    {
                        "e": "step",
                        "t": at,
                        "p": phase,
                        "b": block,
                        "s": start,
                        "w": 0.8 * (at - start),
                    }
                )
            said.append(
                {
                    "e": "block",
                    "t": at,
                    "p": phase,
                    "b": block,
                    "s": began,
                    "d": at - began,
                    "n": many,
                }
            )
    said += [
        {"e": "facts", "t": at, "batch_size": 32, "epoch_steps": 500},
        {"e": "measured", "t": at},
        {"e": "done", "t": at},
    ]
    return said


def write(folder: Path, size: int) -> float:
    """Write the records of a job of `size` ranks; return the megabytes of all."""
    drawn, box = random.Random(size), inspect_machine()
    run = Run(("python", "train.py"), str(folder), "train.py")
    gpu = GpuSample(0, 93.0, 30 << 30, 410.0, 1700, ())
    for rank in range(size):
        own = records.folder_of(folder, rank)
        own.mkdir(parents=True)
        place = Place(rank, size, "torchrun", "simulated", rank % PER_HOST, PER_HOST)
        record = records.RankRecord(
            place,
            host=f"host{rank // PER_HOST}",
            began=records.now(),
            command=run.command,
            cwd=run.cwd,
            label=run.label,
            frameworks={"torch": "2.13.0"},
            machine=box,
            ending=Ending.MEASURED,
        )
        records.save(record, own)
        said = tuple(events_of(rank, size, drawn))
        started, ended = said[0]["t"], said[-1]["t"]
        samples = tuple(
            Sample(started + 0.3 * number, HostSample(1.1, 9.0, 4 << 30, 3, 40), (gpu,))
            for number in range(SAMPLES)
        )
        recording = Recording(run, Ending.MEASURED, -9, started, ended, {1: said}, samples)
        store.save_recording(recording, own / store.RECORDING_FILE)
    return sum(one.stat().st_size for one in folder.rglob("*.json")) / 1e6


def measure(folder: Path) -> dict[str, float]:
    """Merge in this process; wall and CPU seconds, and the peak of its memory before and after."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    began, used = time.perf_counter(), time.process_time()
    found = merge(folder)
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    store.save(found, folder / store.DIAGNOSIS_FILE)
    if found.parallel is None or len(found.parallel.ranks) != found.parallel.expected:
        raise SystemExit("not all ranks are in the report")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu": cpu, "before": before, "after": after}


def main(sizes: list[int]) -> None:
    """Print a line for each number of ranks, and whether time is linear in them."""
    print(machine())
    print(" ranks  records      time  CPU time  per rank  peak memory  of it before")
    each = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            megabytes = write(Path(name), size)
            command = (sys.executable, os.path.abspath(__file__), "--one", name)
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout)
        each.append(found["cpu"] / size)
        print(
            f"{size:6}  {megabytes:4.0f} MB  {found['seconds']:6.2f} s  {found['cpu']:6.2f} s"
            f"  {1e3 * each[-1]:5.1f} ms  {found['after']:7.0f} MiB  {found['before']:8.0f} MiB",
            flush=True,
        )
    grown = each[-1] / each[0]
    print(
        f"CPU time per rank: {sizes[-1]} ranks take {grown:.2f} times what {sizes[0]} take; "
        f"target at most {TARGET}: {'met' if grown <= TARGET else 'MISSED'}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
    else:
        main([int(one) for one in sys.argv[1:]] or list(RANKS))
