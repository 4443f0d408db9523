"""What `trainperf try` says of changes whose worth is known: none at all, and planted gains.

Each change is a diff of a module that a small PyTorch loop calls in each step. Those that change
nothing add a comment; a planted one takes so much less of a busy loop that the script is 5, 10 or
50 % faster. Quiet first, then beside two processes that each keep a core busy. Targets: at least 19
of 20 that change nothing "no difference", none "faster"; each planted one "faster", the interval
holding what was planted.

    python benchmarks/try.py [--runs N] [--gains 5,10,50] [--budget TIME] [--beside 0,2]
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _trials import foot, head, parser, verdict

SCRIPT = """import torch

from work import work

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(20_000, 64)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=32)
for epoch in range(1000):
    for features, target in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(features), target)
        loss.backward()
        optimizer.step()
        work()
"""
WORK = """import torch

ballast = torch.randn(160, 160)


def work():
    for _ in range({turns}):
        ballast @ ballast
"""
TURNS = 120
LEAST = 19 / 20


def diff(changed: str) -> str:
    """The diff that makes `changed` of the module as it is."""
    before, after = (text.splitlines(keepends=True) for text in (WORK.format(turns=TURNS), changed))
    return "".join(difflib.unified_diff(before, after, "a/work.py", "b/work.py"))


def step_s(folder: Path) -> tuple[float, float]:
    """Seconds of a step without the work, and of one turn of it, by plain timing."""
    timed = (
        "import time, torch; torch.set_num_threads(1)\n"
        "exec(open('train.py').read().replace('range(1000)', 'range(1)')"
        ".replace('        work()\\n', ''))\n"
        "began = time.perf_counter()\n"
        "exec(open('train.py').read().replace('range(1000)', 'range(1)')"
        ".replace('        work()\\n', ''))\n"
        "step = (time.perf_counter() - began) / 625\n"
        "began = time.perf_counter()\n"
        "for _ in range(20): work()\n"
        f"print(step, (time.perf_counter() - began) / 20 / {TURNS})\n"
    )
    done = subprocess.run(
        (sys.executable, "-c", timed), cwd=folder, capture_output=True, text=True, check=True
    )
    rest, turn = map(float, done.stdout.split())
    return rest, turn


def planted(gain: float, rest_s: float, turn_s: float) -> tuple[str, float]:
    """The diff that makes the script so much faster, and by how much it really does."""
    whole = rest_s + TURNS * turn_s
    turns = round((whole / (1 + gain) - rest_s) / turn_s)
    return diff(WORK.format(turns=turns)), whole / (rest_s + turns * turn_s)


@contextmanager
def beside(neighbours: int) -> Iterator[None]:
    """So many processes, each of which keeps a core busy."""
    started = [
        subprocess.Popen((sys.executable, "-c", "while True: pass")) for _ in range(neighbours)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def tried(folder: Path, change: str, budget: str) -> dict[str, Any]:
    """What `trainperf try` says of a diff; an answer "error" where it says nothing."""
    report, file = folder / "report.json", folder / "change.diff"
    file.write_text(change)
    report.unlink(missing_ok=True)
    words = ("try", "-q", "--budget", budget, "--json", str(report), "--diff", str(file))
    words = (*words, "--output-dir", str(folder / "runs"), "--", "train.py")
    done = subprocess.run(
        (sys.executable, "-m", "trainperf", *words), cwd=folder, capture_output=True, text=True
    )
    if not report.exists():
        return {"answer": "error", "text": done.stderr.strip(), "speedup": None}
    found: dict[str, Any] = json.loads(report.read_text())["proofs"][0]
    return found


def row(name: str, found: dict[str, Any], took_s: float) -> None:
    """Print what was said of a change."""
    figure = ""
    if found["speedup"] is not None:
        figure = f"{found['speedup']:7.4f} {found['low']:7.4f} {found['high']:7.4f}"
    print(f"{name:12} {found['answer']:14} {figure:23} {took_s:5.0f} s", flush=True)


if __name__ == "__main__":
    options = parser(__doc__, 20, "changes that change nothing")
    options.add_argument("--gains", default="5,10,50", help="planted gains in percent")
    options.add_argument("--budget", default="3min")
    options.add_argument("--beside", default="0,2", help="busy processes beside it")
    given = options.parse_args()
    began = time.monotonic()
    head()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(SCRIPT)
        (folder / "work.py").write_text(WORK.format(turns=TURNS))
        rest_s, turn_s = step_s(folder)
        print(f"a step: {rest_s * 1e3:.2f} ms and {TURNS} turns of {turn_s * 1e6:.1f} µs")
        for neighbours in map(int, given.beside.split(",")):
            print(f"\n{neighbours} busy processes beside it")
            with beside(neighbours):
                answers: Counter[str] = Counter()
                for number in range(given.runs):
                    started = time.monotonic()
                    same = WORK.format(turns=TURNS).replace("for _", f"# {number}\n    for _")
                    found = tried(folder, diff(same), given.budget)
                    answers[found["answer"]] += 1
                    row("nothing", found, time.monotonic() - started)
                for percent in map(float, filter(None, given.gains.split(","))):
                    started = time.monotonic()
                    change, gain = planted(percent / 100, rest_s, turn_s)
                    found = tried(folder, change, given.budget)
                    row(f"{gain:.3f}", found, time.monotonic() - started)
            least = LEAST * given.runs
            print(
                f"{answers['no difference']} of {given.runs} that change nothing: no difference "
                f"({verdict(answers['no difference'] >= least)}); {answers['faster']} faster "
                f"({verdict(not answers['faster'])}); {dict(answers)}"
            )
    foot(began)
