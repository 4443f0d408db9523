"""Scripts rewritten by the fixes of the step still train, with what the fixes promise."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import pytest

from rewriting import finding_of, marked, result, script_of
from trainperf.fixes import by_id

pytestmark = [
    pytest.mark.script,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch here"),
]

TASK = """\
import torch
from torch import nn

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


"""
LOOP = """\
losses = []
for _ in range(4):
    x = torch.randn(4, 3, 8, 8)
    y = torch.randint(2, (4,))
    loss = nn.functional.cross_entropy(▸model(x)◂, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
OWN = f"{TASK}model = ▸Net()◂.train()\noptimizer = ▸torch.optim.AdamW(model.parameters())◂\n{LOOP}"
STACK = OWN.replace(
    "▸Net()◂", "▸nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2))◂"
)

HARNESS = """\
import functools, json, sys
import torch
import torch._dynamo
from torch._dynamo.utils import counters

torch.compile = functools.partial(torch.compile, backend="eager")  # needs no C++ compiler
said = {}
for name, text in json.load(sys.stdin).items():
    torch._dynamo.reset()
    counters.clear()
    space = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), space)
    model, optimizer = space["model"], space["optimizer"]
    weight = next(each for each in model.parameters() if each.dim() == 4)
    said[name] = {
        "losses": space["losses"],
        "frames": counters["frames"]["ok"],
        "keys": list(model.state_dict()),
        "fused": optimizer.param_groups[0]["fused"],
        "channels_last": weight.is_contiguous(memory_format=torch.channels_last),
        "precision": torch.get_float32_matmul_precision(),
        "benchmark": torch.backends.cudnn.benchmark,
    }
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = False

own = {}
for cls, args in json.loads(sys.argv[1]).items():
    torch._dynamo.reset()
    counters.clear()
    made = getattr(torch.nn, cls)(*args)
    made.compile()
    made(*(torch.randn(2, 4, 4) for _ in range(2 if cls in ("Transformer",) else 1)))
    own[cls] = counters["frames"]["total"]
print(json.dumps({"scripts": said, "own": own}))
"""
OF_TORCH = {"Sequential": [], "Linear": [4, 4], "Transformer": [4, 2, 1, 1, 8]}


def _rewritten(text: str, *fixes: str, cls: str = "Net") -> str:
    """The source after the named fixes; sites are model, optimizer, call, in that order."""
    script, (built, optimizer, called) = script_of(text)
    where = {
        "torch_fused_optimizer": (optimizer,),
        "torch_channels_last": (built, called),
    }
    for name in fixes:
        fix = by_id()[name]
        finding = finding_of(
            fix,
            title="",
            text="",
            bound=None,
            bound_basis="",
            where=where.get(name, (built,)),
            data={"cls": cls},
        )
        fix.rewrite(script, finding)
    return result(script) or marked(text)[0]


SCRIPTS = {
    "own": _rewritten(OWN),
    "stack": _rewritten(STACK),
    "fused": _rewritten(OWN, "torch_fused_optimizer"),
    "compile": _rewritten(OWN, "torch_compile"),
    "stack compile": _rewritten(STACK, "torch_compile", cls="Sequential"),
    "channels_last": _rewritten(OWN, "torch_channels_last"),
    "settings": _rewritten(OWN, "torch_matmul_precision", "torch_cudnn_benchmark"),
    "all": _rewritten(
        STACK,
        "torch_compile",
        "torch_channels_last",
        "torch_fused_optimizer",
        "torch_matmul_precision",
        "torch_cudnn_benchmark",
        cls="Sequential",
    ),
}


@pytest.fixture(scope="module")
def ran() -> dict[str, Any]:
    """What all scripts said, run one after the other in one process."""
    done = subprocess.run(
        [sys.executable, "-c", HARNESS, json.dumps(OF_TORCH)],
        input=json.dumps(SCRIPTS),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["fused", "compile", "channels_last", "settings"])
def test_a_rewritten_script_trains_as_before(ran: dict[str, Any], name: str) -> None:
    before, after = ran["scripts"]["own"], ran["scripts"][name]

    assert after["losses"] == pytest.approx(before["losses"], rel=1e-4)
    assert after["keys"] == before["keys"]


@pytest.mark.parametrize("name", ["stack compile", "all"])
def test_a_rewritten_sequential_trains_as_before(ran: dict[str, Any], name: str) -> None:
    before, after = ran["scripts"]["stack"], ran["scripts"][name]

    assert after["losses"] == pytest.approx(before["losses"], rel=1e-4)


def test_the_script_as_it_was_has_none_of_it(ran: dict[str, Any]) -> None:
    said = ran["scripts"]["own"]

    assert (said["frames"], said["fused"], said["channels_last"]) == (0, None, False)
    assert (said["precision"], said["benchmark"]) == ("highest", False)


def test_the_optimizer_is_fused(ran: dict[str, Any]) -> None:
    assert ran["scripts"]["fused"]["fused"] is True


@pytest.mark.parametrize("name", ["compile", "stack compile", "all"])
def test_the_model_is_really_compiled(ran: dict[str, Any], name: str) -> None:
    assert ran["scripts"][name]["frames"] > 0


def test_only_a_wrapped_model_has_other_names_in_its_checkpoint(ran: dict[str, Any]) -> None:
    keys = ran["scripts"]["stack compile"]["keys"]

    assert keys == [f"_orig_mod.{key}" for key in ran["scripts"]["stack"]["keys"]]


def test_compiling_modules_of_pytorch_in_place_still_does_nothing(ran: dict[str, Any]) -> None:
    """The reason for wrapping them; when this fails, `torch_compile` can be simpler."""
    assert ran["own"] == dict.fromkeys(OF_TORCH, 0)


@pytest.mark.parametrize("name", ["channels_last", "all"])
def test_the_weights_have_their_channels_last(ran: dict[str, Any], name: str) -> None:
    assert ran["scripts"][name]["channels_last"] is True


@pytest.mark.parametrize("name", ["settings", "all"])
def test_settings_of_the_process_are_made(ran: dict[str, Any], name: str) -> None:
    said = ran["scripts"][name]

    assert (said["precision"], said["benchmark"]) == ("high", True)
