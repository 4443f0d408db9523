"""Steps of small loops in real PyTorch, taken apart call by call."""

import functools
import importlib
import sys
import textwrap
import time
import types
import warnings
from types import SimpleNamespace

import pytest
import torch

from emulation import fake_cuda
from kit.child import FakeProcess, Watcher, text_at
from trainperf.child.timing.device import Mark
from trainperf.child.torch.devices import TorchClock
from trainperf.child.torch.hooks import watch_dynamo
from trainperf.child.torch.loops import TorchLoops
from trainperf.child.torch.step.detail import Detail
from trainperf.evidence.events import read_as
from trainperf.model.torch import DeviceWait

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_


class Net(nn.Module):
    def __init__(self, wide=8):
        super().__init__()
        self.one = nn.Linear(4, wide)
        self.two = nn.Linear(wide, 1)

    def forward(self, x):
        hidden = F.relu(self.one(x))
        if hidden.sum() < -1:
            return hidden
        return self.two(hidden)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = torch.randn(16, 4), torch.randn(16, 1)
"""
STEP = """\
optimizer.zero_grad()
loss = F.mse_loss(net(x), y)
loss.backward()
optimizer.step()
"""


class Run:
    """A driver as the loop sees it: `boundary` ends a step, the first one starts."""

    def __init__(self):
        self.process = FakeProcess(clock=time.perf_counter)
        self.loops = TorchLoops(Watcher())
        self.loops.process = self.process
        self.loops.device = TorchClock(time.perf_counter)
        self.detail = Detail(self.loops)
        self._at = None
        watch_dynamo(self.loops, importlib.import_module("torch._dynamo.trace_rules"))
        optimizer = sys.modules["torch.optim.optimizer"]
        self._handles = [
            optimizer.register_optimizer_step_pre_hook(self.detail.steps),
            optimizer.register_optimizer_step_post_hook(lambda one, *_: self.detail.stepped(one)),
        ]

    def boundary(self, asked=False):
        now = time.perf_counter()
        if self._at is None:
            self.detail.start(asked)
        else:
            self.detail.step_ended(Mark(self._at), Mark(now))
        self._at = time.perf_counter()

    def stop(self):
        self.detail.stop()
        for handle in self._handles:
            handle.remove()
        assert not self.process.record.of("missing")
        return self

    def of(self, kind):
        return self.process.record.of(kind)

    @property
    def parts(self):
        [split] = self.of("torch_split")
        assert all(seconds >= 0 for seconds, *_ in split["parts"].values())
        return {part: calls for part, (_, calls, *_) in split["parts"].items()}

    @property
    def calls(self):
        [calls] = self.of("torch_calls")
        return calls


@pytest.fixture
def observed(users):
    """Runs a loop whose body is a step of the user's."""
    runs = []

    def run(step=STEP, before="", steps=3, after="", loop=None):
        one = Run()
        runs.append(one)
        body = loop or "for i in range(STEPS):\n    boundary()\n" + textwrap.indent(step, "    ")
        source = f"{HEAD}{before}\n{body}\nboundary()\n{after}"
        torch.manual_seed(0)
        one.module = users(
            source, f"users_own_{len(runs)}", boundary=one.boundary, STEPS=steps, run=one
        )
        return one.stop()

    yield run
    for one in runs:
        one.detail.stop()


# ---------------------------------------------------------------- what must not change


def patched_names():
    module, tensor = torch.nn.Module, torch.Tensor
    return {
        "call": module.__dict__["__call__"],
        "tensor": set(vars(tensor)),
        "repr": tensor.__repr__,
        "format": tensor.__format__,
        "backward": torch.autograd.backward,
        "grad": torch.autograd.grad,
        "zero_grad": torch.optim.Optimizer.zero_grad,
        "clip": (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad.clip_grad_norm_),
        "scale": torch.amp.GradScaler.scale,
        "autocast": torch.autocast.__enter__,
        "loader": torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
        "warnings": [one for one in warnings.filters if "step" in str(one[3])],
    }


def test_after_stop_everything_is_as_it_was(observed):
    before = patched_names()
    one = Run()
    one.detail.start()
    during = patched_names()
    assert {name for name in before if before[name] != during[name]} == set(before)
    one.detail.stop()
    assert patched_names() == before
    run = observed(STEP + "clip_grad_norm_(net.parameters(), 1.0)\nfloat(loss)\n")
    assert patched_names() == before
    assert run.module.clip_grad_norm_ is torch.nn.utils.clip_grad_norm_


def test_the_loop_computes_what_it_computes_without_hooks(observed):
    plain = {"boundary": lambda: None, "STEPS": 3}
    torch.manual_seed(0)
    exec(f"{HEAD}\nfor i in range(STEPS):\n{textwrap.indent(STEP, '    ')}", plain)
    run = observed()
    assert torch.equal(plain["net"].one.weight, run.module.net.one.weight)
    assert run.parts["forward"] == 3


def test_an_exception_in_a_forward_is_the_user_s_and_leaves_nothing_open(observed):
    run = observed("try:\n    net(x[:, :2])\nexcept RuntimeError:\n    caught = i\n" + STEP)
    assert run.module.caught == 2
    assert (run.parts["forward"], run.parts["optimizer"]) == (6, 3)
    assert not run.detail._ledger.open


def test_a_fault_of_ours_is_recorded_and_the_loop_goes_on(monkeypatch):
    one = Run()
    before = patched_names()
    one.boundary()
    monkeypatch.setattr(one.detail._ledger, "enter", lambda *_: 1 / 0)
    net = torch.nn.Linear(2, 1)
    net(torch.ones(1, 2)).sum().backward()
    assert patched_names() == before
    one.boundary()
    one.detail.stop()
    [missing] = one.of("missing")
    assert missing["what"] == "split"
    assert "division" in missing["reason"]


@pytest.mark.parametrize(
    "form",
    [
        "compiled = torch.compile(net, backend=BACKEND, fullgraph=True)",
        "compiled = net\nnet.compile(backend=BACKEND, fullgraph=True)",
        textwrap.dedent("""\
            whole = torch.compile(net, backend=BACKEND, fullgraph=True)
            class Outer(nn.Module):
                def forward(self, x):
                    return whole(x)
            compiled = Outer()
            compiled.net = net"""),
    ],
)
def test_a_compiled_model_is_neither_compiled_again_nor_broken_up(observed, form):
    torch._dynamo.reset()
    run = observed(
        STEP.replace("net(x)", "compiled(x)"),
        before=f"import torch._dynamo.utils as utils\nBACKEND = 'aot_eager'\n{form}\n"
        "Net.forward = lambda self, x: self.two(F.relu(self.one(x)))\n"
        "for _ in range(2):\n    F.mse_loss(compiled(x), y).backward()\n"
        "graphs = utils.counters['stats']['unique_graphs']",
        after="run.graphs = utils.counters['stats']['unique_graphs'] - graphs\n",
    )
    assert run.graphs == 0
    assert run.parts["forward"] == 3
    assert text_at(run.calls["forward"]) == "compiled(x)"


def test_what_is_compiled_while_hooks_are_set_is_not_compiled_again_after(observed):
    torch._dynamo.reset()
    run = observed(
        STEP.replace("net(x)", "compiled(x)"),
        before="import torch._dynamo.utils as utils\n"
        "class Whole(nn.Sequential):\n    pass\n"
        "whole = Whole(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))\n"
        "compiled = torch.compile(whole, backend='eager', fullgraph=True)\n"
        "graphs = utils.counters['stats']['unique_graphs']",
        after="run.stop_hooks()\ncompiled(x)\n"
        "run.graphs = utils.counters['stats']['unique_graphs'] - graphs\n",
        loop="run.stop_hooks = run.detail._undo\nfor i in range(4):\n    boundary()\n"
        + textwrap.indent(STEP.replace("net(x)", "compiled(x)"), "    "),
    )
    assert run.graphs == 1
    [split] = run.of("torch_split")
    assert split["steps"] == 3  # the step that compiled is left out
    assert split["parts"]["forward"][1] == 3


def test_a_graph_break_in_a_compiled_model_meets_no_hook_of_ours(observed):
    torch._dynamo.reset()
    run = observed(
        STEP.replace("net(x)", "compiled(x)"),
        before="import torch._dynamo.utils as utils\n"
        "compiled = torch.compile(net, backend='eager')\n"
        "for _ in range(2):\n    compiled(x).sum().backward()\n"
        "before = dict(utils.counters['stats'])",
        after="run.stats = dict(utils.counters['stats'])\nrun.before = before\n",
    )
    assert run.stats == run.before
    assert run.parts["forward"] == 3
    assert "sync" not in run.parts


# ------------------------------------------------------------------------ what is seen


LOADER = """\
from torch.utils.data import DataLoader, TensorDataset
class Data(TensorDataset):
    def __getitem__(self, index):
        assert self.tensors[0][index].sum().item() is not None
        return net.two.weight.detach().to('meta'), *super().__getitem__(index)
"""
LOADED = """\
for _, u, v in DataLoader(Data(x, y), batch_size=4):
    loss = F.mse_loss(net(u), v)
"""
THREAD = "t = Thread(target=lambda: (net(x), net(x).sum().item()))\nt.start()\nt.join()\n"
WRONG = "try:\n    net(x[:, :2])\nexcept RuntimeError:\n    caught = i\n"
TEACHER = "with torch.no_grad():\n    goal = teacher(x)\n" + STEP.replace("y)", "goal)")
FUNCTION = """\
net.eval()
def forward():
    for _ in range(1):
        return F.mse_loss(net(x), y)
"""


@pytest.mark.parametrize(
    ("step", "before", "parts"),
    [
        (STEP + THREAD, "from threading import Thread", {"forward": 3}),
        (STEP + "run.process.off = True\nnet(x)\nrun.process.off = False\n", "", {"forward": 3}),
        (LOADED + "loss.backward()\n", LOADER, {"forward": 12}),
        (WRONG + STEP, "", {"forward": 6, "optimizer": 3}),
        (TEACHER, "teacher = Net(64).eval()", {"forward": 6}),
        (STEP.replace("F.mse_loss(net(x), y)", "forward()"), FUNCTION, {"forward": 3}),
        (STEP + "x.to('meta')\nx.to(torch.float64)\nx.to('cpu')\n", "", {"transfer": 3}),
    ],
    ids=["threads", "ours", "dataset", "exception", "teacher", "trains in evaluation", "copies"],
)
def test_each_call_is_of_the_part_it_belongs_to_or_of_none(observed, step, before, parts):
    run = observed(step, before)
    assert {name: run.parts[name] for name in parts} == parts
    assert not {"sync", "transfer"} & (run.parts.keys() - parts.keys())
    assert run.of("torch_sync") == run.of("torch_evaluation") == []
    assert not run.detail._ledger.open


TRANSFORMED = """\
import time
from torch.utils.data import DataLoader, Dataset, dataloader
class Points(Dataset):
    transform = nn.LayerNorm(4)
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return self.transform(x[index % 16]), y[index % 16]
original = dataloader._BaseDataLoaderIter.__next__
def asked(iterator):  # as the driver's hook, in which those of a step are set
    run.boundary(asked=True)
    began = time.perf_counter()
    batch = original(iterator)
    run.detail.add("input", time.perf_counter() - began)
    return batch
dataloader._BaseDataLoaderIter.__next__ = asked
"""


def test_a_transform_that_is_a_module_is_no_forward_of_the_first_step_either(observed, monkeypatch):
    iterators = torch.utils.data.dataloader._BaseDataLoaderIter
    monkeypatch.setattr(iterators, "__next__", iterators.__next__)  # put back
    body = "    F.mse_loss(net(u), v).backward()"
    run = observed(before=TRANSFORMED, loop=f"for u, v in DataLoader(Points(), 8):\n{body}")
    assert run.parts == {"forward": 3, "backward": 3, "input": 3, "rest": 0}


# ------------------------------------------------------------------------- on a GPU


@pytest.fixture
def waits(monkeypatch):
    """How often the device is waited for, on an emulated one; `capture` says that it captures."""
    cuda = fake_cuda.install(put=functools.partial(monkeypatch.setattr, raising=False))
    said = SimpleNamespace(count=0, mode=0, marks=0)
    synchronize, event = torch.cuda.synchronize, torch.cuda.Event

    def waited(index):
        assert not cuda.capturing
        said.count += 1
        synchronize(index)

    def marked(enable_timing):
        assert not cuda.capturing
        said.marks += 1
        return event(enable_timing)

    def capture(on):
        cuda.capturing = on

    monkeypatch.setattr(torch.cuda, "capture", capture, raising=False)
    monkeypatch.setattr(torch.cuda, "synchronize", waited)
    monkeypatch.setattr(torch.cuda, "Event", marked)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: said.mode)
    monkeypatch.setattr(
        torch.cuda, "set_sync_debug_mode", lambda mode: vars(said).update(mode=int(mode == "warn"))
    )
    return said


def test_on_a_gpu_each_edge_of_a_part_is_a_mark_and_nobody_waits(waits, observed):
    run = observed(steps=1)
    assert run.parts["forward"] == 1
    assert waits.count == 1  # once, before the first mark
    assert waits.marks == 2 + 2 * 4 + 1  # before the first step; four parts, and its end


def test_what_is_captured_as_a_graph_is_not_waited_for_and_no_part_of_a_step(waits, observed):
    run = observed("torch.cuda.capture(True)\n" + STEP + "torch.cuda.capture(False)\n")
    assert set(run.parts) == {"rest"}
    assert waits.marks == 2 + 3  # before the first step, and the ends of all


WAITS = (
    "import warnings\ndef masked(x):\n    warnings.warn('called a synchronizing CUDA operation')\n"
)


def test_what_cuda_says_waits_is_found_with_its_line_and_the_mode_put_back(waits, observed):
    filters = list(warnings.filters)
    run = observed(STEP + "masked(x)\nmasked(x)\n", before=WAITS)
    [wait] = run.of("torch_wait")
    assert wait["calls"] == 2
    assert wait["where"]["function"] == "masked"
    assert read_as(DeviceWait, wait).calls == 2
    assert waits.mode == 0
    assert list(warnings.filters) == filters


# ------------------------------------------------------------------------- syncs


@pytest.mark.parametrize(
    ("line", "what", "printed"),
    [
        ("total = loss.item()", "item", False),
        ("total = loss.detach().cpu()", "cpu", False),
        ("total = float(loss)", "float", False),
        ("total = 1 if loss > 0 else 2", "bool", False),
        ("print(loss)", "print", True),
        ("print(f'{loss}')", "format", True),
        ("print('loss', loss.item())", "item", True),
        ("text = f'{loss.item():.3f}'", "item", True),
        ("text = str(loss)", "print", True),
    ],
)
def test_a_wait_of_the_user_s_is_found_with_its_line(observed, line, what, printed, capsys):
    run = observed(STEP + line + "\n")
    [sync] = run.of("torch_sync")
    assert (sync["what"], sync["printed"], sync["calls"]) == (what, printed, 1)
    assert text_at(sync["where"]) in line
    assert run.parts["sync"] == 3


# --------------------------------------------------------------------------- logging

WANDB = """\
class Run:
    def log(self, data):
        return {name: float(value) for name, value in data.items()}
"""


def test_a_tracker_s_function_that_is_a_method_of_its_run_is_counted_once(observed, monkeypatch):
    wandb, module = types.ModuleType("wandb"), types.ModuleType("wandb.sdk.wandb_run")
    exec(compile(WANDB, "/usr/lib/site-packages/wandb_run.py", "exec"), vars(module))
    wandb.log = module.Run().log
    for library in (wandb, module):
        monkeypatch.setitem(sys.modules, library.__name__, library)
    run = observed(STEP + "wandb.log({'loss': loss.item()})\n", before="import wandb\n")
    [log], [sync] = run.of("torch_log"), run.of("torch_sync")
    assert (log["what"], log["calls"], log["reads"]) == ("wandb.log", 1, 0)
    assert (sync["what"], sync["printed"]) == ("item", True)  # read for it, by the user
    assert wandb.log.__func__ is module.Run.log


def test_a_forked_child_runs_without_hooks():
    one = Run()
    before = patched_names()
    one.boundary()
    one.detail.forked()
    assert patched_names() == before
