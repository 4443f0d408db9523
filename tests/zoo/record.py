"""Record scripts of the zoo: `cd tests && python -m zoo.record [--check] [NAME…]`."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import site
import sys
import sysconfig
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec

import trainperf
from trainperf.machine import after_run, inspect_machine
from trainperf.model import Recording, Run
from trainperf.run.launch import launch
from zoo import FOLDER, REPOSITORY, SCRIPTS, Recorded, Script, file_of, hashes, load

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
PACKAGES = "/python/lib/python3/site-packages"


def recorded(script: Script) -> Recorded:
    """Run a script observed, without trials; return what is kept of it."""
    with tempfile.TemporaryDirectory(prefix="zoo-") as name:
        base = Path(name).resolve()
        work, packages, temporary = base / "work", base / "site-packages", base / "tmp"
        shutil.copytree(script.folder, work, ignore=shutil.ignore_patterns("__pycache__"))
        temporary.mkdir()
        env = {**QUIET, "TMPDIR": str(temporary), **script.env}
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
            measure_s=2.0,
            extra_s=script.extra_s,
        )
        machine = inspect_machine(directory=work, live=False)
        machine = replace(machine, hostname="zoo", os=machine.os.partition(", ")[0])
        recording = after_run.probe_storage(launch(run, base / "run"), machine)
        text = msgspec.json.encode(Recorded(recording, machine, {})).decode()
        for path, neutral in _neutral(base):
            text = text.replace(path, neutral)
    files = sorted(set(re.findall(rf'{FOLDER}/([^"<>:]*?\.py)"', text)))
    sources = hashes(script.folder, [file for file in files if (script.folder / file).exists()])
    return replace(msgspec.json.decode(text, type=Recorded), sources=sources)


def _neutral(base: Path) -> list[tuple[str, str]]:
    """What stands for each folder of this machine, the deepest first."""
    found = {
        str(base / "work"): FOLDER,
        str(base / "site-packages"): PACKAGES,
        str(base): "/tmp/zoo",
        str(Path(trainperf.__file__).parents[1]): PACKAGES,
        str(REPOSITORY): "/repository",
        str(Path.home()): "/home/user",
        sysconfig.get_path("stdlib"): "/python/lib/python3",
        **{path: PACKAGES for path in (*site.getsitepackages(), *sys.path) if "-packages" in path},
        **dict.fromkeys((sys.prefix, sys.base_prefix), "/python"),
    }
    found |= {os.path.realpath(path): neutral for path, neutral in found.items()}
    return sorted(found.items(), key=lambda item: -len(item[0]))


TIMED = {"at", "block", "epoch", "input", "phase", "step"}
"""Events of which a run has more the faster it is, or the more threads take turns."""


def shape(recording: Recording) -> Counter[str]:
    """How often each kind and name of event is in a recording; of the timed ones, whether."""
    found: Counter[str] = Counter()
    for event in (event for events in recording.events.values() for event in events):
        kind = event["e"]
        names = (event.get(key) for key in ("k", "name", "what", "kind", "p", "op", "cls"))
        name = next((str(each) for each in names if each is not None), "")
        if kind == "missing" and name.startswith("probe "):  # for want of time, on another machine
            kind, name = "", name.removeprefix("probe ")
        if kind == "probe":
            kind = ""
        label = f"{kind} {name}".strip()
        found[label] = 1 if kind in TIMED else found[label] + 1
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
    check = "--check" in sys.argv
    names = [name for name in sys.argv[1:] if name != "--check"] or list(SCRIPTS)
    differ = False
    for name in names:
        made = recorded(SCRIPTS[name])
        if check:
            said = differences(load(name).recording, made.recording)
            differ = differ or bool(said)
            print(name, *(said or ["as before"]), sep="\n  ", flush=True)
            continue
        file = file_of(name)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(gzip.compress(msgspec.json.encode(made), mtime=0))
        print(f"{name}: {made.recording.ending}, {file.stat().st_size} bytes", flush=True)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
