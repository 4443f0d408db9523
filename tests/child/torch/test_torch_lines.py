"""Steps of small loops in real PyTorch, traced by lines: whose operators and backward they are."""

from __future__ import annotations

import gc
import importlib
import os
import resource
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, SimpleNamespace
from typing import Any

import pytest
import torch

from kit.child import FakeProcess
from trainperf.child.timing import tracing
from trainperf.child.torch import hooks
from trainperf.child.torch.step import lines, looks
from trainperf.child.torch.step.lines import TorchTracer

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def loss_of(rows):
    losses = []
    for i in range(20):
        for j in range(10):
            losses.append(F.relu(rows[i] - rows[j]).sum())
    return torch.stack(losses).mean()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


"""


class Driver:
    """As much of a driver as tracing asks; steps end where `boundary` is called."""

    def __init__(self) -> None:
        self.process: Any = FakeProcess({"leg": None, "folder": "/run"}, time.monotonic)
        self.process.after_fork = lambda call: None
        self.record, self.clock = self.process.record, time.monotonic
        self.world = None
        self.device = SimpleNamespace(asynchronous=False)
        self.plan = SimpleNamespace(step_estimate=lambda: 0.001, slow=False)
        self.loops = SimpleNamespace(main=threading.get_ident(), compiles=False, lines=None)
        self.loops.tracer = lambda driver: TorchTracer(driver, within=self.within)
        self.within = False

    def sync(self) -> None: ...


@pytest.fixture(autouse=True)
def _single_thread(monkeypatch) -> Iterator[None]:
    """A product of 8 columns is no work for several threads, which wait for each other.

    What is looked at is not to depend on how busy the machine is.
    """
    monkeypatch.setattr(looks, "LEAST_S", 600.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def loop(tmp_path, monkeypatch) -> Callable[..., Any]:
    """Make a step of some source, in a file of the user's; its names come with it."""

    def make(setup: str, step: str) -> Any:
        file = tmp_path / "train.py"
        body = textwrap.indent(step, "    ")
        file.write_text(f"{HEAD}{setup}\n\ndef step():\n{body}    return loss\n")
        names: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file), "exec"), names)
        return SimpleNamespace(**names)

    return make


def traced(script: Any, driver: Driver | None = None) -> tuple[dict[str, Any], list[float]]:
    """The event that some steps of a loop leave, and the losses of its steps."""
    driver = driver or Driver()
    losses = [script.step() for _ in range(2)]
    tracing_ = tracing.begin(driver)
    while tracing_ is not None and tracing_.boundary():
        losses.append(script.step())
    assert torch._C._len_torch_function_stack() == 0
    [event] = [one for one in driver.record.events if one["e"] in ("torch_lines", "missing")]
    return event, [loss.item() for loss in losses]


def of(event: dict[str, Any], text: str) -> dict[str, Any]:
    [line] = [line for line in event["lines"] if text in line["text"]]
    return dict(line)


RANKING = (
    "layer = nn.Linear(8, 8)\nx = torch.randn(64, 8)",
    "layer.weight.grad = None\nloss = loss_of(layer(x))\nloss.backward()\n",
)
SPARSE = (
    (
        "graph = torch.eye(512)\nlayer = nn.Linear(64, 64)\nx = torch.randn(512, 64)\n"
        "optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)"
    ),
    (
        "optimizer.zero_grad()\nhidden = torch.mm(graph, layer(x))\nloss = hidden.square().mean()\n"
        "loss.backward()\noptimizer.step()\n"
    ),
)
TABLE = (
    "table = nn.Embedding(5000, 8)\noptimizer = torch.optim.SGD(table.parameters(), lr=0.01)",
    (
        "optimizer.zero_grad()\nindices = torch.randint(0, 50, (400,))\n"
        "loss = table(indices).square().mean()\nloss.backward()\noptimizer.step()\n"
    ),
)
TEACHER = (
    (
        "block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)\n"
        "teacher = nn.TransformerEncoder(block, 2).eval()\nlayer = nn.Linear(16, 16)\n"
        "x = torch.randn(2, 5, 16)\npads = torch.arange(5) >= torch.tensor([[5], [3]])\n"
        "optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)"
    ),
    (
        "with torch.no_grad():\n    target = teacher(x, src_key_padding_mask=pads)\n"
        "optimizer.zero_grad()\nloss = (layer(x) - target).square().mean()\n"
        "loss.backward()\noptimizer.step()\n"
    ),
)
"""PyTorch's fast path for this leaves zeros where the mask says so; the slow one does not."""
COUNTED = (
    (
        "from torch.utils._python_dispatch import TorchDispatchMode\n\n"
        "class Count(TorchDispatchMode):\n    seen = 0\n\n"
        "    def __torch_dispatch__(self, function, types, args=(), kwargs=None):\n"
        "        self.seen += 1\n        return function(*args, **(kwargs or {}))\n\n"
        "class Told(torch.Tensor):\n    told = 0\n\n    @classmethod\n"
        "    def __torch_function__(cls, function, types, args=(), kwargs=None):\n"
        "        Told.told += 1\n"
        "        return super().__torch_function__(function, types, args, kwargs or {})\n\n"
        "x = torch.randn(8, 8)\ny = torch.randn(8, 8).as_subclass(Told)\n"
        "table = nn.Embedding(10, 8)"
    ),
    (
        "with Count() as count:\n    loss = (table(torch.arange(10)) @ (x * 2)).sum()\n"
        "told = y @ x\nloss = loss.detach() + count.seen + Told.told\n"
    ),
)


# What must not be told, and what must stay as it is.


@pytest.mark.parametrize("source", [RANKING, SPARSE, TABLE, TEACHER, COUNTED])
def test_numbers_and_random_numbers_are_those_of_an_untraced_run(loop, source):
    event, losses = traced(loop(*source))
    again = loop(*source)
    assert event["e"] == "torch_lines"
    assert losses == [again.step().item() for _ in losses]


def test_a_loop_that_ends_before_the_tracer_starts_is_left_as_it_was(loop):
    tracing_ = tracing.begin(Driver())
    assert tracing_.boundary()
    loop(*SPARSE).step()
    tracing_.end("the input ran out")
    assert torch._C._len_torch_function_stack() == 0
    assert isinstance(torch.overrides.has_torch_function, BuiltinFunctionType)


def test_a_process_that_is_forked_from_a_traced_step_keeps_no_operators(loop):
    forked: list[Callable[[], None]] = []
    driver = Driver()
    driver.process.after_fork = forked.append
    tracing_ = tracing.begin(driver)
    for _ in range(2):
        assert tracing_.boundary()
    reads, writes = os.pipe()
    if not (child := os.fork()):
        for call in forked:
            call()
        before, one = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, torch.ones(1)
        for _ in range(40_000):
            one.add(1)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > 20_000
        os.write(writes, f"{torch._C._len_torch_function_stack()} {grown}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    tracing_.end("the input ran out")
    assert os.read(reads, 99) == b"0 False"


def test_where_something_is_compiled_there_is_no_event_and_no_compilation(loop):
    script = loop(
        "layer = torch.compile(nn.Linear(4, 4), backend='eager')\nx = torch.randn(8, 4)",
        "loss = layer(x).sum()\nloss.backward()\n",
    )
    driver = Driver()
    driver.loops.compiles = True
    script.step()
    graphs = dict(torch._dynamo.utils.counters["stats"])
    event, _ = traced(script, driver)
    assert event == {"e": "missing", "what": tracing.LINES, "reason": lines.COMPILES}
    assert torch._dynamo.utils.counters["stats"] == graphs
    torch._dynamo.reset()


def test_the_mode_is_gone_before_something_is_compiled_in_a_traced_step(loop, monkeypatch):
    frames: Any = importlib.import_module("torch._dynamo.eval_frame")
    monkeypatch.setattr(frames.OptimizeContext, "__call__", frames.OptimizeContext.__call__)
    script = loop(
        "layers = [nn.Linear(4, 4)]\nx = torch.randn(8, 4)\nturns = []",
        "turns.append(1)\nif len(turns) == 4:\n"
        "    layers[0] = torch.compile(layers[0], backend='eager', fullgraph=True)\n"
        "loss = layers[0](x).sum()\nloss.backward()\n",
    )
    driver = Driver()
    driver.loops.process = driver.process
    hooks.watch_calls(driver.loops, frames)
    event, losses = traced(script, driver)
    torch._dynamo.reset()
    assert event["reason"] == lines.COMPILES
    assert losses == losses[:1] * len(losses)


def test_a_mode_of_the_scripts_own_is_left_alone(loop):
    script, driver = loop(*SPARSE), Driver()
    with torch.overrides.BaseTorchFunctionMode():
        assert tracing.begin(driver).boundary() is False
        assert torch._C._len_torch_function_stack() == 1
    assert driver.record.of("missing")[0]["reason"] == lines.MODES
    script.step()


def test_a_fault_of_ours_leaves_the_steps_alone_and_is_a_reason(loop, monkeypatch):
    def fails(*_: Any) -> Any:
        raise RuntimeError("no such line")

    monkeypatch.setattr(lines, "name_of", fails)
    event, losses = traced(loop(*SPARSE))
    assert event["reason"] == "RuntimeError: no such line"
    again = loop(*SPARSE)
    assert losses == [again.step().item() for _ in losses]


def test_no_tensor_is_kept_alive(loop):
    script = loop(
        "table = nn.Embedding(500, 8)\nkept = []",
        "indices = torch.randint(0, 9, (40,))\nkept.append(indices)\n"
        "loss = (table(indices) @ torch.ones(8, 4)).mean()\nloss.backward()\n",
    )
    event, _ = traced(script)
    assert of(event, "table(indices)")["operators"] == 4
    references = [weakref.ref(tensor) for tensor in script.kept]
    script.kept.clear()
    gc.collect()
    assert not any(reference() is not None for reference in references)


def test_batches_at_the_same_place_and_arrays_that_are_written_into_are_not_the_same(loop):
    script = loop(
        "import numpy as np\narray = np.zeros(64, 'float32')\nshared = torch.from_numpy(array)\n"
        "weight = torch.ones(64, requires_grad=True)",
        "array[:] = array + 1\nbatch = torch.rand(64)\na = batch.cumsum(0)\nb = shared.cumsum(0)\n"
        "loss = (a + b + weight).sum()\n",
    )
    event, _ = traced(script)
    assert not [line for line in event["lines"] if "same" in line["looks"]]


# What must be told.


def test_a_loss_in_a_python_loop_owns_its_backward_and_tells_its_loop(loop):
    script = loop(*RANKING)
    event, _ = traced(script)
    line = of(event, "losses.append")
    assert line["operators"] == 200 * 5
    assert line["loop"]["line"] == 11
    assert line["elements"] == 8
    owned = sum(line["backward_s"] for line in event["lines"])
    assert line["backward_s"] > 0.5 * event["all_backward_s"]  # read in evidence/stacks.py
    assert of(event, "loss.backward()")["backward_s"] < 0.05 * owned
    assert of(event, "loss_of(layer(x))")["loop"] is None


def test_zeros_of_an_operand_that_stays_are_counted_and_named(loop):
    event, _ = traced(loop(*SPARSE))
    line = of(event, "torch.mm")
    assert line["looks"] == {"zeros": {"share": 1 - 1 / 512, "shape": [512, 512]}}
    assert of(event, "optimizer.step()")["operators"] > 0


def test_steps_that_end_within_an_optimizer_are_traced_once_it_is_left(loop):
    script, driver = loop(*SPARSE), Driver()
    driver.within = True
    script.step()
    tracing_ = tracing.begin(driver)
    assert tracing_ is not None
    going = [True]
    hook = sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(
        lambda *_: going.append(going[-1] and tracing_.boundary())
    )
    while going[-1]:
        script.step()
    hook.remove()
    [event] = driver.record.of("torch_lines")
    assert torch._C._len_torch_function_stack() == 0
    assert of(event, "torch.mm")["backward_s"] > 0


UNTIL_2_14 = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14),
    reason="this PyTorch has a fused kernel for three dimensions",
)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("q, q, q, is_causal=True", None),
        ("q, q, q, mask.bool()", None),
        ("q, q, q, dropout_p=0.1", "dropout"),
        ("q, q, q, mask.requires_grad_()", "mask gradient"),
        ("q, q, q, attn_mask=mask.expand(2, 8, 8)", "mask"),
        pytest.param("q[0], q[0], q[0]", "dimensions", marks=UNTIL_2_14),
        ("q, q, q[..., :4]", "width"),
        ("q, q, q, mask.requires_grad_(), 0.1", "mask gradient, dropout"),
        pytest.param("q[0], q[0], q[0], dropout_p=0.1", "dimensions, dropout", marks=UNTIL_2_14),
    ],
)
def test_attention_without_a_fused_kernel_says_what_keeps_it_off(loop, given, why):
    script = loop(
        "q, mask = torch.randn(2, 2, 8, 16, requires_grad=True), torch.zeros(8, 8)",
        f"loss = F.scaled_dot_product_attention({given}).sum()\nloss.backward()\n",
    )
    event, _ = traced(script)
    assert of(event, "scaled_dot")["looks"].get("unfused") == why


@pytest.mark.parametrize(
    ("context", "given", "why"),
    [
        ("torch.autocast('cpu', torch.bfloat16)", "q, q, q.bfloat16()", None),
        ("nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH)", "q, q, q", "off"),
    ],
)
def test_attention_is_judged_as_it_is_run(loop, context, given, why):
    script = loop(
        "import torch.nn.attention\nq = torch.randn(2, 2, 8, 16, requires_grad=True)",
        f"with {context}:\n    loss = F.scaled_dot_product_attention({given}).sum()\n"
        "loss.backward()\n",
    )
    event, _ = traced(script)
    assert of(event, "scaled_dot")["looks"].get("unfused") == why


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_looked_up_are_counted(loop, sparse):
    made = TABLE[0].replace("(5000, 8)", f"(5000, 8, sparse={sparse})")
    event, _ = traced(loop(made, TABLE[1]))
    looks = of(event, "table(indices)")["looks"]
    assert looks["rows"] == {"used": 50, "of": 5000, "width": 8, "sparse": sparse}


def test_what_is_computed_anew_of_the_same_is_told(loop):
    script = loop(
        "graph = torch.rand(64, 64)\nweight = torch.ones(64, requires_grad=True)",
        "degree = graph.sum(1)\nmask = torch.triu(torch.ones(64, 64))\n"
        "noise = torch.rand(64) * degree\nloss = (mask @ (degree * weight + noise)).mean()\n",
    )
    event, _ = traced(script)
    told = {line["text"].partition(" ")[0]: line["looks"].get("same") for line in event["lines"]}
    assert told == {"degree": True, "mask": True, "noise": None, "loss": None}


def test_the_backward_of_a_function_of_the_users_own_is_its_callers(loop):
    script = loop(
        "x = torch.randn(256, 256, requires_grad=True)",
        "hidden = Square.apply(x)\nloss = hidden.mean()\nloss.backward()\n",
    )
    event, _ = traced(script)
    line = of(event, "Square.apply")
    assert line["name"] == "Square.apply"
    assert line["backward_s"] > 0  # how much, against another's, is a matter of microseconds
    assert of(event, "return x * x")["operators"] > 0
    assert of(event, "return x * x")["backward_s"] == 0
