"""Scripts rewritten by the fixes of DDP still train, on two ranks, to the same weights."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from rewriting import finding_of, marked, result, script_of
from trainperf.fixes import by_id

pytestmark = [
    pytest.mark.alone,
    pytest.mark.long,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch here"),
]

SCRIPT = """\
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
model = {wrapped}
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
generator = torch.Generator().manual_seed(distributed.get_rank())
for i in range(12):
    x = torch.randn(8, 16, generator=generator)
    y = torch.randint(4, (8,), generator=generator)
    loss = nn.functional.cross_entropy({forward}, y)
    {backward}
    if (i + 1) % 4 == 0:
        {step}
        optimizer.zero_grad()
"""
PLAIN = {
    "wrapped": "DDP(net, find_unused_parameters=True)",
    "forward": "model(x)",
    "backward": "loss.backward()",
    "step": "optimizer.step()",
}

HARNESS = """\
import json, os, sys
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

distributed.init_process_group("gloo")
calls = []
original = DistributedDataParallel.no_sync
DistributedDataParallel.no_sync = lambda self: (calls.append(1), original(self))[1]
said = {}
with open(sys.argv[1], encoding="utf-8") as file:
    texts = json.load(file)
for name, text in texts.items():
    calls.clear()
    space = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), space)
    model = space["model"]
    said[name] = {
        "weights": torch.cat([each.flatten() for each in model.parameters()]).tolist(),
        "spared": len(calls),
        "view": model.gradient_as_bucket_view,
        "static": model.static_graph,
        "searches": model.find_unused_parameters,
        "hook": [hook.__name__ for hook, _ in model._comm_hooks],
    }
if distributed.get_rank() == 0:
    print("SAID", json.dumps(said))
distributed.destroy_process_group()
"""


def edited(fix_id: str, data: dict[str, Any] | None = None, **sites: str) -> str:
    """The script as a fix rewrites it; `sites` are the marked parts."""
    fix = by_id()[fix_id]
    script, places = script_of(SCRIPT.format(**{**PLAIN, **sites}))
    finding = finding_of(
        fix, title="", text="", bound=None, bound_basis="", where=places, data=data or {}
    )
    fix.rewrite(script, finding)
    made = result(script)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What rank 0 says of each rewritten script."""
    wrapped = f"▸{PLAIN['wrapped']}◂"
    loop = {name: f"▸{PLAIN[name]}◂" for name in ("forward", "backward", "step")}
    texts = {
        "plain": marked(SCRIPT.format(**PLAIN))[0],
        "view": edited("torch_ddp_bucket_view", wrapped=wrapped),
        "static": edited("torch_ddp_static_graph", wrapped=wrapped),
        "unused": edited("torch_ddp_unused_parameters", wrapped=wrapped),
        "hook": edited("torch_ddp_compress", {"hook": "fp16_compress_hook"}, wrapped=wrapped),
        "no_sync": edited("torch_ddp_no_sync", **loop),
    }
    folder = tmp_path_factory.mktemp("ddp")
    (folder / "harness.py").write_text(HARNESS)
    (folder / "texts.json").write_text(json.dumps(texts))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc_per_node", "2", "harness.py", "texts.json"),
        ],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("SAID ")]
    assert lines, done.stderr
    return dict(json.loads(lines[0].removeprefix("SAID ")))


@pytest.mark.parametrize("name", ["view", "static", "unused"])
def test_what_is_called_exact_ends_in_the_very_same_weights(
    said: dict[str, Any], name: str
) -> None:
    assert said[name]["weights"] == said["plain"]["weights"]


@pytest.mark.parametrize(("name", "close"), [("no_sync", 1e-5), ("hook", 1e-2)])
def test_what_rounds_otherwise_ends_in_nearly_the_same_weights(
    said: dict[str, Any], name: str, close: float
) -> None:
    assert said[name]["weights"] == pytest.approx(said["plain"]["weights"], rel=close, abs=close)


def test_settings_arrive_in_ddp(said: dict[str, Any]) -> None:
    assert (said["plain"]["view"], said["view"]["view"]) == (False, True)
    assert (said["plain"]["static"], said["static"]["static"]) == (False, True)
    assert (said["plain"]["searches"], said["unused"]["searches"]) == (True, False)
    assert said["hook"]["hook"] == ["fp16_compress_hook"]


def test_three_of_four_micro_steps_exchange_nothing(said: dict[str, Any]) -> None:
    assert said["plain"]["spared"] == 0
    assert said["no_sync"]["spared"] == 9
