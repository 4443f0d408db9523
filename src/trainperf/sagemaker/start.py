"""Runs in the training container: unpack the source, install trainperf, diagnose.

Uploaded as it is and run by the image's own python3: standard library only, and nothing
of trainperf.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

ML = Path("/opt/ml")
FAILURE_CHARACTERS = 1000


def main(ml: Path = ML) -> int:
    """Do it, and return the exit status; a reason for a failure goes where SageMaker looks."""
    brought = Path(__file__).resolve().parent
    plan = json.loads((brought / "plan.json").read_text(encoding="utf-8"))
    results = ml / "output" / "data" / "trainperf"
    source = ml / "code"
    for folder in (results, source):
        folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(brought / "source.tar.gz") as tar:
        tar.extractall(source, filter="data")
    names, current = hosts(ml)
    environment = {**os.environ, **variables(ml, names, current)}
    own = brought / str(plan["install"])
    wanted = str(own) if own.is_file() else str(plan["install"])
    needed = {str(plan["install"]): ["--upgrade-strategy", "only-if-needed", wanted]}
    if (source / "requirements.txt").is_file():
        needed["requirements.txt"] = ["-r", str(source / "requirements.txt")]
    for what, words in needed.items():
        if status := install(words, environment):
            return failed(ml, f"pip could not install {what}", status)
    command = diagnosing(plan, results, names, gpus())
    print("trainperf:", " ".join(command), flush=True)
    status = subprocess.run(command, cwd=source, env=environment, check=False).returncode
    said = {"exit_status": status, "host": current}
    name = f"exit-{current}.json"  # the hosts' folders become one
    (results / name).write_text(json.dumps(said), encoding="utf-8")
    if (results / "diagnosis.json").is_file() or any(results.glob("job/rank-*/rank.json")):
        return 0  # the report says what the script did; the job did what it is for
    return failed(ml, "trainperf diagnose left no report", status or 2)


def install(words: list[str], environment: dict[str, str]) -> int:
    """Have pip install something."""
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *words]
    return subprocess.run(pip, env=environment, check=False).returncode


def diagnosing(plan: dict[str, Any], results: Path, names: list[str], gpus: int) -> list[str]:
    """The command: one diagnosis, or on several hosts a record for `trainperf merge`."""
    command = [sys.executable, "-m", "trainperf", "diagnose", "--output-dir", "/tmp/trainperf-runs"]
    if len(names) > 1:
        command += ["--run-dir", str(results / "job")]
    else:
        command += ["--json", str(results / "diagnosis.json")]
        command += ["--patch", str(results / "fixes.patch")]
    script = [str(plan["script"]), *map(str, plan["arguments"])]
    if not plan.get("torchrun"):
        return [*command, *script]
    launcher = ["torchrun", f"--nproc_per_node={max(1, gpus)}"]
    if len(names) > 1:
        launcher += [f"--nnodes={len(names)}", "--rdzv-backend=c10d"]
        launcher += [f"--rdzv-endpoint={sorted(names)[0]}:29400", "--rdzv-id=trainperf"]
    else:
        launcher += ["--standalone"]
    return [*command, "--", *launcher, *script]


def hosts(ml: Path) -> tuple[list[str], str]:
    """The hosts of the job, and the name of this one."""
    said = read(ml / "input" / "config" / "resourceconfig.json")
    names = [str(one) for one in said.get("hosts") or ["algo-1"]]
    return names, str(said.get("current_host") or names[0])


def variables(ml: Path, names: list[str], current: str) -> dict[str, str]:
    """The variables that scripts know from SageMaker's own images; what is set stays."""
    made = {
        "SM_MODEL_DIR": str(ml / "model"),
        "SM_OUTPUT_DATA_DIR": str(ml / "output" / "data"),
        "SM_INPUT_DIR": str(ml / "input"),
        "SM_HOSTS": json.dumps(names),
        "SM_CURRENT_HOST": current,
        "SM_NUM_GPUS": str(gpus()),
        "SM_NUM_CPUS": str(len(os.sched_getaffinity(0))),
    }
    for name in read(ml / "input" / "config" / "inputdataconfig.json"):
        if name != "trainperf":
            path = str(ml / "input" / "data" / str(name))
            made["SM_CHANNEL_" + str(name).upper().replace("-", "_")] = path
    return {name: value for name, value in made.items() if name not in os.environ}


def gpus() -> int:
    """How many NVIDIA GPUs there are."""
    return sum(one.name[6:].isdigit() for one in Path("/dev").glob("nvidia[0-9]*"))


def read(path: Path) -> dict[str, Any]:
    """A JSON object, empty if there is none."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def failed(ml: Path, reason: str, status: int) -> int:
    """Write the reason where SageMaker reads its FailureReason from."""
    print(f"trainperf: {reason} (exit status {status})", file=sys.stderr, flush=True)
    text = f"{reason} (exit status {status}); the job's log says more"
    (ml / "output" / "failure").write_text(text[:FAILURE_CHARACTERS], encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
