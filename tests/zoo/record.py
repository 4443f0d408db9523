"""Record scripts of the zoo: `cd tests && python -m zoo.record [--check] [NAME…]`.

`python -m zoo.record --answer RUN NAME` keeps the answer of a saved run of `trainperf diagnose`,
which was started in the folder of the script.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import site
import socket
import sys
import sysconfig
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec

import trainperf
from trainperf import store
from trainperf.machine import after_run, inspect_machine
from trainperf.model import Recording, Run
from trainperf.run.launch import launch
from zoo import DIAGNOSES, FOLDER, REPOSITORY, SCRIPTS, Recorded, Script, file_of, hashes, load

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
PACKAGES = "/python/lib/python3/site-packages"


def record(script: Script) -> Recorded:
    """Run a script observed, without trials; return what is kept of it."""
    with tempfile.TemporaryDirectory(prefix="zoo-") as name:
        base = Path(name).resolve()
        work, packages, temporary = base / "work", base / "site-packages", base / "tmp"
        shutil.copytree(script.folder, work, ignore=shutil.ignore_patterns("__pycache__"))
        temporary.mkdir()
        env = {**QUIET, "TMPDIR": str(temporary), **script.env}
        if not env["OMP_NUM_THREADS"]:
            del env["OMP_NUM_THREADS"]
        if script.library:
            library = REPOSITORY / script.library
            shutil.copytree(library, packages / library.name)
            env["EMULATION"] = str(packages)
        own = Path(script.path).name
        run = Run(
            command=(
                str(Path(sys.prefix, "bin", "python")),
                *script.launcher,
                own,
                *script.arguments,
            ),
            cwd=str(work),
            label=own,
            env=env,
            measure_s=4.0,
            extra_s=script.extra_s,
        )
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"  # where it is recorded is nothing to tell
        machine = inspect_machine(directory=work)
        machine = replace(machine, os=machine.os.partition(", ")[0])  # without its kernel
        recording = after_run.probe_storage(launch(run, base / "run"), machine)
        text = msgspec.json.encode(Recorded(recording, machine, {})).decode()
        for path, neutral in _neutral(base):
            text = text.replace(path, neutral)
    files = sorted(set(re.findall(rf'{FOLDER}/([^"<>:]*?\.py)"', text)))
    sources = hashes(script.folder, [file for file in files if (script.folder / file).exists()])
    return replace(msgspec.json.decode(text, type=Recorded), sources=sources)


def _neutral(base: Path) -> list[tuple[str, str]]:
    """What stands for the name and each folder of this machine, the deepest first."""
    packages = {path for path in (*site.getsitepackages(), *sys.path) if "-packages" in path}
    pythons = {sys.prefix, sys.base_prefix, *(str(Path(path).parents[2]) for path in packages)}
    found = {
        str(base / "work"): FOLDER,
        str(base / "site-packages"): PACKAGES,
        str(base): "/tmp/zoo",
        str(Path(trainperf.__file__).parents[1]): PACKAGES,
        str(REPOSITORY): "/repository",
        str(Path.home()): "/home/user",
        sysconfig.get_path("stdlib"): "/python/lib/python3",
        **dict.fromkeys(packages, PACKAGES),
        **dict.fromkeys(pythons, "/python"),
    }
    found |= {os.path.realpath(path): neutral for path, neutral in found.items()}
    found[f'"{socket.gethostname()}"'] = '"zoo"'
    return sorted(found.items(), key=lambda item: -len(item[0]))


def keep_answer(run: Path, name: str) -> None:
    """Keep the saved answer of a run; places are those of the script, as in a recording."""
    answer = store.load(run / "diagnosis.json")
    text = msgspec.json.encode(answer).decode().replace(answer.cwd, FOLDER)
    text = text.replace(answer.command[0], "/python/bin/python")
    text = text.replace(f'"{answer.machine.hostname}"', '"zoo"')
    DIAGNOSES.mkdir(exist_ok=True)
    (DIAGNOSES / f"{name}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


OFTEN = {"block", "input", "phase", "step", "trace"}
"""Events of which a run has more the faster it is."""
BY_CHANCE = {"aside", "at", "between", "epoch", "first"}
"""Kinds and names of events that are there if an epoch ended in time, or a sampler looked."""


def shape(recording: Recording) -> Counter[str]:
    """How often each kind and name of event is in a recording; of some only whether."""
    found: Counter[str] = Counter()
    for event in (event for events in recording.events.values() for event in events):
        kind = event["e"]
        names = (event.get(key) for key in ("k", "name", "what", "kind", "p", "op", "cls"))
        name = next((str(each) for each in names if each is not None), "")
        if kind == "made":  # a file of a random name
            name = ""
        if "probe" in (kind, name.partition(" ")[0]):  # missing only for want of time
            kind, name = "probe", name.removeprefix("probe ")
        if not BY_CHANCE & {kind, name}:
            label = f"{kind} {name}".strip()
            found[label] = 1 if kind in OFTEN else found[label] + 1
    return found


def differences(old: Recording, new: Recording) -> list[str]:
    """What the shapes of two recordings of one script differ in, line by line."""
    was, now = shape(old), shape(new)
    return [
        f"{label}: {was[label]} before, {now[label]} now"
        for label in sorted(was.keys() | now.keys())
        if was[label] != now[label]
    ]


def main() -> None:
    if sys.argv[1:2] == ["--answer"]:
        return keep_answer(Path(sys.argv[2]), sys.argv[3])
    check = "--check" in sys.argv
    names = [name for name in sys.argv[1:] if name != "--check"] or list(SCRIPTS)
    differ = False
    for name in names:
        made = record(SCRIPTS[name])
        if check:
            different = differences(load(name).recording, made.recording)
            differ = differ or bool(different)
            print(name, *(different or ["as before"]), sep="\n  ", flush=True)
            continue
        file = file_of(name)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(lzma.compress(msgspec.json.encode(made), preset=9))
        print(f"{name}: {made.recording.ending}, {file.stat().st_size} bytes", flush=True)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
