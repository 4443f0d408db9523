"""Steps of small loops in real PyTorch, taken apart call by call."""

import functools
import importlib.util
import os
import subprocess
import sys
import textwrap
import time
import types
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from emulation import fake_cuda  # noqa: E402
from fakes import FakeProcess  # noqa: E402
from trainperf.child.timing.device.clock import Mark  # noqa: E402
from trainperf.child.torch.clock import TorchClock  # noqa: E402
from trainperf.child.torch.step import detail, hooks, products  # noqa: E402
from trainperf.child.torch.step.detail import Detail  # noqa: E402
from trainperf.evidence.torch import _read  # noqa: E402
from trainperf.model import Evaluation, StepCalls, SyncPoint  # noqa: E402
from trainperf.model.torch.products import Products  # noqa: E402
from trainperf.model.torch.step import DeviceWait  # noqa: E402

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
HERE = Path(__file__).parent
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
        self.loops = SimpleNamespace(
            process=self.process,
            device=TorchClock(time.perf_counter),
            model_calls={},
            shapes={},
            set_to_none={},
            zero_grad_sites={},
            step_sites={},
        )
        self.detail = Detail(self.loops)
        self._at = None
        optimizer = sys.modules["torch.optim.optimizer"]
        self._handles = [
            optimizer.register_optimizer_step_pre_hook(self.detail.steps),
            optimizer.register_optimizer_step_post_hook(self.detail.stepped),
        ]

    def boundary(self):
        now = time.perf_counter()
        if self._at is None:
            self.detail.start()
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

    def text(self, site):
        """The source at a site."""
        lines = self.source.splitlines()
        assert site["line"] == site["end_line"]
        return lines[site["line"] - 1][site["col"] : site["end_col"]]


@pytest.fixture
def observed(tmp_path, monkeypatch):
    """Runs a loop whose body is a step of the user's."""
    runs = []

    def run(step=STEP, before="", steps=3, after="", loop=None):
        one = Run()
        runs.append(one)
        body = loop or "for i in range(STEPS):\n    boundary()\n" + textwrap.indent(step, "    ")
        one.source = f"{HEAD}{before}\n{body}\nboundary()\n{after}"
        path = tmp_path / f"users_own_{len(runs)}.py"
        path.write_text(one.source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        module.boundary, module.STEPS, module.run = one.boundary, steps, one
        monkeypatch.setitem(sys.modules, path.stem, module)
        torch.manual_seed(0)
        spec.loader.exec_module(module)
        one.module = module
        return one.stop()

    yield run
    for one in runs:
        one.detail.stop()


@pytest.fixture
def eager(monkeypatch):
    """Nothing was compiled, whatever other tests of this process did."""
    monkeypatch.setattr(products, "_compiles", lambda: False)


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


def test_where_no_step_ended_the_split_is_missing_and_says_why():
    one = Run()
    one.boundary()
    one.detail.stop()
    assert [fields["what"] for fields in one.of("missing")] == ["split"]
    assert not one.of("torch_split")


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_forward_whose_activations_are_checkpointed_is_the_training_s(observed, reentrant):
    """Reentrant checkpointing runs it without gradients, and once more in the backward."""
    forward = f"checkpoint(net, x.requires_grad_(), use_reentrant={reentrant})"
    run = observed(
        STEP.replace("net(x)", forward), before="from torch.utils.checkpoint import checkpoint"
    )
    assert run.text(run.calls["forward"]) == forward
    assert run.parts["forward"] == run.parts["backward"] == 3


def test_what_other_threads_do_is_not_the_loop_s(observed):
    run = observed(
        STEP + "thread = Thread(target=lambda: (net(x), net(x).sum().item()))\n"
        "thread.start()\nthread.join()\n",
        before="from threading import Thread",
    )
    assert run.parts["forward"] == 3
    assert "sync" not in run.parts


def test_what_trainperf_itself_does_is_not_the_loop_s(observed):
    run = observed(STEP + "run.process.off = True\nnet(x)\nrun.process.off = False\n")
    assert run.parts["forward"] == 3


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
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_is_neither_compiled_again_nor_broken_up(observed, form, backend):
    pytest.importorskip("torch._dynamo")
    torch._dynamo.reset()
    run = observed(
        STEP.replace("net(x)", "compiled(x)"),
        before=f"import torch._dynamo.utils as utils\nBACKEND = {backend!r}\n{form}\n"
        "Net.forward = lambda self, x: self.two(F.relu(self.one(x)))\n"
        "for _ in range(2):\n    F.mse_loss(compiled(x), y).backward()\n"
        "graphs = utils.counters['stats']['unique_graphs']",
        after="run.graphs = utils.counters['stats']['unique_graphs'] - graphs\n",
    )
    assert run.graphs == 0
    assert run.parts["forward"] == 3
    assert run.text(run.calls["forward"]) == "compiled(x)"


def test_a_hook_that_cannot_be_taken_out_leaves_no_other_in(monkeypatch):
    run, failed = Run(), []
    monkeypatch.setattr(run.process, "failed", lambda what, error: failed.append(error))
    before = torch.nn.Module.__call__, torch.Tensor.item, list(warnings.filters)
    run.detail.start()
    assert torch.nn.Module.__call__ is not before[0]
    with monkeypatch.context() as broken:
        broken.setattr(run.detail._dynamo, "stop", lambda: 1 / 0)
        run.detail._undo()
    run.detail._dynamo.stop()
    assert (torch.nn.Module.__call__, torch.Tensor.item, list(warnings.filters)) == before
    assert [type(error) for error in failed] == [ZeroDivisionError]
    for handle in run._handles:
        handle.remove()


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


@pytest.mark.script
def test_a_loop_that_compiles_its_first_model_meets_no_hook_of_ours(tmp_path):
    script = tmp_path / "compiles_late.py"
    script.write_text(
        "import sys\n"
        "from test_torch_detail import Detail, Run, torch\n"
        "from torch import nn\n"
        "run, x = Run(), torch.ones(2, 4)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "original = torch.compile\n"
        "net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))\n"
        "for i in range(3):\n"
        "    run.boundary()\n"
        "    if i == 1:\n"
        "        net = torch.compile(net, backend='eager', fullgraph=True)\n"
        "    net(x).sum().backward()\n"
        "run.boundary()\n"
        "run.stop()\n"
        "from torch._dynamo import utils\n"
        "assert utils.unpatched_nn_module_call is nn.Module.__call__\n"
        "assert torch.compile is original\n"
        "print(utils.counters['stats']['unique_graphs'], run.parts['forward'])\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1 2\n", done.stderr


def test_a_compiled_step_with_its_optimizer_is_not_compiled_again(observed):
    torch._dynamo.reset()
    run = observed(
        "step()\n",
        before="import torch._dynamo.utils as utils\n"
        "@torch.compile(backend='eager')\ndef step():\n"
        + textwrap.indent(STEP, "    ")
        + "for _ in range(3):\n    step()\n"
        "graphs = dict(utils.counters['stats'])",
        after="run.graphs = utils.counters['stats']['unique_graphs'] - graphs['unique_graphs']\n",
    )
    assert run.graphs == 0


# ------------------------------------------------------------------------ what is seen


def test_the_parts_of_a_plain_step_fill_it(observed):
    run = observed()
    [split] = run.of("torch_split")
    assert run.parts == {"zero_grad": 3, "forward": 3, "backward": 3, "optimizer": 3, "rest": 0}
    assert split["steps"] == 3
    assert all(split["parts"][part][0] > 0 for part in ("forward", "backward", "optimizer", "rest"))


def test_an_optimizer_of_keras_is_the_optimizer_s_part(observed, monkeypatch):
    class Optimizer:
        def apply(self, gradients, weights):
            for gradient, weight in zip(gradients, weights, strict=True):
                weight.sub_(0.01 * gradient)

    monkeypatch.setitem(sys.modules, "keras.optimizers", types.SimpleNamespace(Optimizer=Optimizer))
    update = (
        "with torch.no_grad():\n"
        "    sgd.apply([p.grad for p in net.parameters()], list(net.parameters()))\n"
    )
    before = "import sys\nsgd = sys.modules['keras.optimizers'].Optimizer()"
    run = observed(STEP.replace("optimizer.step()\n", update), before=before)
    assert run.parts["optimizer"] == 3
    assert not hasattr(Optimizer.apply, "__wrapped__")  # the hook is out again


def test_the_calls_are_told_by_what_the_user_wrote(observed):
    run = observed()
    calls = run.calls
    names = ("forward", "backward", "step", "zero_grad")
    assert [run.text(calls[name]) for name in names] == [
        "net(x)",
        "loss.backward()",
        "optimizer.step()",
        "optimizer.zero_grad()",
    ]
    assert (calls["clip"], calls["scale"], calls["autocast"], calls["scaler"]) == (
        None,
        None,
        "",
        False,
    )
    assert (calls["backwards"], calls["updates"]) == (1, 1)
    assert not calls["retains_graph"]
    assert not calls["closure"]


def test_the_probes_get_the_last_call_of_the_model(observed):
    run = observed(
        STEP.replace("net(x)", "net(x[i:])").replace("y)", "y[i:])"),
        before="criterion = nn.MSELoss()",
    )
    net, optimizer = run.module.net, run.module.optimizer
    [(module, (batch,), keywords)] = run.loops.model_calls.values()
    assert module is net
    assert batch.shape == (14, 4)
    assert keywords == {}
    assert run.loops.shapes == {id(net): 3}
    assert run.text(run.loops.model_sites[id(net)]) == "net(x[i:])"
    assert run.loops.set_to_none == {id(optimizer): True}
    assert run.text(run.loops.zero_grad_sites[id(optimizer)]) == "optimizer.zero_grad()"
    assert run.text(run.loops.step_sites[id(optimizer)]) == "optimizer.step()"


def test_gradients_accumulate_over_several_backwards(observed):
    run = observed(
        "for part in range(4):\n"
        "    (F.mse_loss(net(x), y) / 4).backward()\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "optimizer.step()\n"
        "optimizer.zero_grad(set_to_none=False)\n"
    )
    assert run.parts == {"forward": 12, "backward": 12, "optimizer": 3, "zero_grad": 3, "rest": 0}
    assert (run.calls["backwards"], run.calls["updates"]) == (4, 1)
    assert run.text(run.calls["clip"]) == "clip_grad_norm_(net.parameters(), 1.0)"
    assert list(run.loops.set_to_none.values()) == [False]


def test_two_models_and_optimizers_are_kept_apart(observed):
    run = observed(
        "critics.zero_grad()\n"
        "fake = net(x)\n"
        "loss = critic(fake.detach()).mean() - critic(y).mean()\n"
        "loss.backward(retain_graph=True)\n"
        "critics.step()\n"
        "optimizer.zero_grad()\n"
        "(-critic(fake).mean()).backward()\n"
        "optimizer.step()\n",
        before="critic = nn.Linear(1, 1)\ncritics = torch.optim.SGD(critic.parameters(), lr=0.01)",
    )
    assert run.parts["forward"] == 12
    assert run.parts["optimizer"] == 6
    assert (run.calls["backwards"], run.calls["updates"]) == (2, 2)
    assert run.calls["retains_graph"]
    kept = {id(run.module.net), id(run.module.critic)}
    assert set(run.loops.model_calls) == kept
    _, (fake,), _ = run.loops.model_calls[id(run.module.critic)]
    assert fake.grad_fn is None
    assert fake.requires_grad
    sites = [run.text(site) for site in run.loops.step_sites.values()]
    assert sorted(sites) == ["critics.step()", "optimizer.step()"]


def test_a_closure_s_forward_and_backward_are_not_the_optimizer_s(observed):
    run = observed(
        "def closure():\n"
        "    optimizer.zero_grad()\n"
        "    loss = F.mse_loss(net(x), y)\n"
        "    loss.backward()\n"
        "    return loss\n"
        "optimizer.step(closure)\n",
        before="optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)",
    )
    assert run.calls["closure"]
    assert run.calls["updates"] == 1
    assert run.parts["optimizer"] == 3
    assert run.parts["forward"] == run.parts["backward"] == run.parts["zero_grad"] > 3
    assert "sync" not in run.parts  # LBFGS's own float(), not the user's
    assert run.text(run.calls["forward"]) == "net(x)"


def test_autocast_and_a_scaler_are_seen(eager, observed):
    run = observed(
        "optimizer.zero_grad()\n"
        "with torch.autocast('cpu', dtype=torch.float16):\n"
        "    loss = F.mse_loss(net(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.unscale_(optimizer)\n"
        "clip_grad_norm_(net.parameters(), 1.0)\n"
        "scaler.step(optimizer)\n"
        "scaler.update()\n",
        before="scaler = torch.amp.GradScaler('cpu')",
    )
    calls = run.calls
    assert calls["scaler"]
    assert calls["autocast"] == "float16" == run.loops.autocast
    assert run.text(calls["scale"]) == "scaler.scale(loss)"
    assert run.text(calls["step"]) == "scaler.step(optimizer)"
    assert calls["updates"] == 1
    assert run.parts["optimizer"] == 2  # in the second of three steps the products were watched
    assert not run.of("torch_sync")


def test_a_scaler_that_is_disabled_is_none(observed):
    run = observed(
        STEP.replace("loss.backward", "scaler.scale(loss).backward"),
        before="scaler = torch.amp.GradScaler('cpu', enabled=False)",
    )
    assert not run.calls["scaler"]


@pytest.mark.parametrize(("enabled", "dtype"), [(True, "bfloat16"), (False, "")])
def test_an_autocast_region_inside_the_forward_is_seen(observed, enabled, dtype):
    run = observed(
        STEP,
        before="class Cast(Net):\n"
        "    def forward(self, x):\n"
        f"        with torch.autocast('cpu', dtype=torch.bfloat16, enabled={enabled}):\n"
        "            return super().forward(x)\n"
        "net = Cast()\noptimizer = torch.optim.SGD(net.parameters(), lr=0.01)",
    )
    assert run.calls["autocast"] == dtype


def test_an_exception_in_a_forward_is_the_user_s_and_leaves_nothing_open(observed):
    run = observed(
        "try:\n    net(x[:, :2])\nexcept RuntimeError:\n    caught = i\n" + STEP,
    )
    assert run.module.caught == 2
    assert run.parts["optimizer"] == 3
    assert run.parts["forward"] == 6
    assert not run.detail._ledger.open


def test_an_exception_in_an_optimizer_leaves_the_next_steps_whole(observed):
    run = observed(
        "try:\n    optimizer.step(lambda: 1 / 0)\nexcept ZeroDivisionError:\n    pass\n" + STEP,
    )
    assert run.calls["updates"] == 2
    assert run.parts["forward"] == 3


def test_a_module_s_argument_may_have_any_name(observed):
    run = observed(
        STEP.replace("net(x)", "net(module=x)"),
        before="Net.forward = lambda self, module: self.two(self.one(module))",
    )
    [(_, args, keywords)] = run.loops.model_calls.values()
    assert args == ()
    assert list(keywords) == ["module"]


def test_the_events_become_the_values_of_the_model(observed):
    run = observed(STEP + "print(loss.item())\nevaluate()\n", before=EVALUATE)
    [evaluation] = run.of("torch_evaluation")
    [sync] = run.of("torch_sync")
    assert _read(run.calls, StepCalls).forward.exact
    assert _read(evaluation, Evaluation).grad
    assert _read(sync, SyncPoint).printed


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


class Graph:
    """As much of a `torch.cuda.CUDAGraph` as a loop calls."""

    def replay(self):
        time.sleep(0.002)


def test_a_replayed_graph_is_a_part_and_not_the_loop_s_own_python(monkeypatch, observed):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    run = observed("x.copy_(y)\ngraph.replay()\n", before="graph = torch.cuda.CUDAGraph()")
    [split] = run.of("torch_split")
    assert run.parts == {"graph": 3, "rest": 0}
    assert split["parts"]["graph"][0] > split["parts"]["rest"][0]


def test_a_graph_that_is_replayed_within_a_forward_is_the_forward_s(monkeypatch, observed):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    before = (
        "graph, forward = torch.cuda.CUDAGraph(), net.forward\n"
        "net.forward = lambda x: graph.replay() or forward(x)"
    )
    assert "graph" not in observed(before=before).parts


def test_on_a_gpu_nobody_waits_for_a_tensor_of_the_host(waits, observed):
    run = observed(STEP + "y.tolist()\nprint(loss)\n")
    assert run.of("torch_sync") == []


WAITS = (
    "import warnings\ndef masked(x):\n    warnings.warn('called a synchronizing CUDA operation')\n"
)


def test_what_cuda_says_waits_is_found_with_its_line_and_the_mode_put_back(waits, observed):
    filters = list(warnings.filters)
    run = observed(STEP + "masked(x)\nmasked(x)\n", before=WAITS)
    [wait] = run.of("torch_wait")
    assert wait["calls"] == 2
    assert wait["where"]["function"] == "masked"
    assert _read(wait, DeviceWait).calls == 2
    assert waits.mode == 0
    assert list(warnings.filters) == filters


def test_a_wait_that_the_hooks_have_timed_is_told_once(waits, observed, monkeypatch):
    monkeypatch.setattr(hooks.Hooks, "awaited", lambda *_: None)  # as on a GPU
    run = observed(STEP + "float(loss), masked(x)\n", before=WAITS)
    assert len(run.of("torch_sync")) == 1
    assert [one["where"]["function"] for one in run.of("torch_wait")] == ["masked"]


AUTOCAST = """\
with torch.autocast("cpu", dtype=torch.bfloat16):
    hidden = net.one(x)
loss = F.mse_loss(net.two(hidden.float()), y)
loss.backward()
optimizer.step()
"""


def test_products_in_float32_beside_autocast_are_found_in_a_step_of_their_own(eager, observed):
    run = observed(AUTOCAST, steps=4)
    [totals] = run.of("torch_products")
    wide = run.of("torch_wide_product")
    assert totals["narrow_flops"] > 0
    [ahead] = [one for one in wide if one["part"] == "forward"]
    assert run.text(ahead["where"]) == "net.two(hidden.float())"
    assert {one["part"] for one in wide} == {"forward", "backward"}
    assert _read(totals, Products).wide_s == pytest.approx(sum(one["seconds"] for one in wide))
    [split] = run.of("torch_split")
    assert split["steps"] == 3  # the step that was watched is none of them


def test_nothing_is_watched_where_nothing_runs_under_autocast(observed):
    run = observed(steps=4)
    assert run.of("torch_products") == []
    [split] = run.of("torch_split")
    assert split["steps"] == 4


def test_no_mode_of_ours_outlives_the_steps(eager, observed):
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    for steps in (1, 2, 3):
        observed(AUTOCAST, steps=steps)
        assert _get_current_dispatch_mode() is None
    broken = "with pytest.raises(ZeroDivisionError):\n    1 / 0\n"
    observed(AUTOCAST + broken, before="import pytest", steps=3)
    assert _get_current_dispatch_mode() is None


# ------------------------------------------------------------------------- syncs


def test_no_sync_is_found_in_a_module_or_in_a_library(observed):
    run = observed(STEP + "torch.testing.assert_close(x, x)\n")
    assert run.of("torch_sync") == []  # `if hidden.sum() < -1` belongs to the forward
    assert "sync" not in run.parts


def test_printing_by_way_of_a_logger_is_found(observed):
    run = observed(
        STEP + "log.warning('loss %s', loss)\n",
        before="import logging\nlog = logging.getLogger('mine')\n",
    )
    [sync] = run.of("torch_sync")
    assert (sync["what"], sync["printed"]) == ("print", True)
    assert run.text(sync["where"]) == "log.warning('loss %s', loss)"


@pytest.mark.parametrize(
    ("line", "what", "printed"),
    [
        ("total = loss.item()", "item", False),
        ("total = loss.detach().cpu()", "cpu", False),
        ("total = loss.detach().numpy()", "numpy", False),
        ("total = y.tolist()", "tolist", False),
        ("total = float(loss)", "float", False),
        ("total = int(loss)", "int", False),
        ("total = 1 if loss > 0 else 2", "bool", False),
        ("print(loss)", "print", True),
        ("print(f'{loss}')", "format", True),
        ("print('loss', loss.item())", "item", True),
        ("text = f'{loss.item():.3f}'", "item", True),
        ("text = 'loss {:.3f}'.format(loss.item())", "item", True),
        ("text = str(loss)", "print", True),
    ],
)
def test_a_wait_of_the_user_s_is_found_with_its_line(observed, line, what, printed, capsys):
    run = observed(STEP + line + "\n")
    [sync] = run.of("torch_sync")
    assert (sync["what"], sync["printed"], sync["calls"]) == (what, printed, 1)
    assert run.source.splitlines()[sync["where"]["line"] - 1].strip() == line
    assert run.parts["sync"] == 3


def test_a_copy_to_another_device_is_a_transfer_and_one_to_another_dtype_is_not(observed):
    run = observed(STEP + "x.to('meta')\nx.to(torch.float64)\nx.to('cpu')\n")
    assert run.parts["transfer"] == 3
    assert "sync" not in run.parts


def test_where_every_step_is_not_logged_a_sync_has_a_part_of_a_call(observed):
    run = observed(STEP + "if i == 0:\n    loss.item()\n", steps=4)
    [sync] = run.of("torch_sync")
    assert sync["calls"] == 0.25


# --------------------------------------------------------------------------- logging

WANDB = """\
class Run:
    def log(self, data):
        return {name: float(value) for name, value in data.items()}
"""
LIGHTNING = """\
class Callback:
    def on_train_batch_end(self, net, x):
        pass

class Bar(Callback):
    def on_train_batch_end(self, net, x):
        pass

def call_back(callbacks, net, x):
    for one in callbacks:
        one.on_train_batch_end(net, x)
"""


@pytest.fixture
def library(monkeypatch):
    """Puts a module of a library in place, as it stands in site-packages."""

    def put(name, source):
        module = types.ModuleType(name)
        exec(compile(source, f"/usr/lib/site-packages/{name}.py", "exec"), vars(module))
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return put


def test_what_logs_has_its_line_its_time_and_the_tensors_that_it_reads(observed, tmp_path):
    pytest.importorskip("tensorboard")
    writer = "from torch.utils.tensorboard import SummaryWriter\n"
    writer += f"writer = SummaryWriter({str(tmp_path)!r})\n"
    logs = "writer.add_scalar('loss', loss, i)\n"
    logs += "for name, one in net.named_parameters():\n"
    logs += "    writer.add_histogram(name, one, i)\n"
    run = observed(STEP + logs, before=writer)
    scalar, histograms = run.of("torch_log")
    assert scalar["what"] == "torch.SummaryWriter.add_scalar"
    assert run.text(scalar["where"]) == "writer.add_scalar('loss', loss, i)"
    assert (scalar["calls"], scalar["reads"]) == (1, 1)
    assert run.text(histograms["where"]) == "writer.add_histogram(name, one, i)"
    assert (histograms["calls"], histograms["reads"]) == (4, 4)
    assert run.of("torch_sync") == []  # the library's own, in the time of its call
    [split] = run.of("torch_split")
    logged = 3 * (scalar["seconds"] + histograms["seconds"])
    assert split["parts"]["log"][0] == pytest.approx(logged)
    assert split["parts"]["log"][0] > 0


def test_a_tracker_s_function_that_is_a_method_of_its_run_is_counted_once(observed, library):
    wandb = library("wandb", "")
    wandb.log = library("wandb.sdk.wandb_run", WANDB).Run().log
    run = observed(STEP + "wandb.log({'loss': loss.item()})\n", before="import wandb\n")
    [log], [sync] = run.of("torch_log"), run.of("torch_sync")
    assert (log["what"], log["calls"], log["reads"]) == ("wandb.log", 1, 0)
    assert (sync["what"], sync["printed"]) == ("item", True)  # read for it, by the user
    assert wandb.log.__func__ is sys.modules["wandb.sdk.wandb_run"].Run.log


def test_a_callback_has_the_place_of_its_method_if_it_is_the_user_s(observed, library):
    library("lightning.pytorch.callbacks.callback", LIGHTNING)
    before = """\
from sys import modules
lightning = modules["lightning.pytorch.callbacks.callback"]
class Watch(lightning.Callback):
    def on_train_batch_end(self, net, x):
        net.eval()
        with torch.no_grad():
            net(x)
        net.train()
callbacks = [Watch(), lightning.Bar()]
"""
    run = observed(STEP + "lightning.call_back(callbacks, net, x)\n", before=before)
    found = {log["what"].rpartition(".")[0].rpartition(".")[2]: log for log in run.of("torch_log")}
    assert list(found) == ["Watch", "Bar"]
    assert found["Bar"]["where"] is None
    head = run.source.splitlines()[found["Watch"]["where"]["line"] - 1]
    assert head.strip() == "def on_train_batch_end(self, net, x):"
    assert run.parts["forward"] == 3 + 3  # the model is no logging, wherever it is called
    assert run.parts["log"] == 6


def test_what_logs_nothing_has_no_part_for_it(observed):
    run = observed()
    assert run.of("torch_log") == []
    assert "log" not in run.parts


# ------------------------------------------------------------------ input, evaluation

LOADER = """\
from torch.utils.data import DataLoader, TensorDataset
class Data(TensorDataset):
    def __getitem__(self, index):
        assert self.tensors[0][index].sum().item() is not None
        return net.two.weight.detach().to('meta'), *super().__getitem__(index)
loader = DataLoader(Data(x, y), batch_size=4)
"""


def test_what_a_dataset_calls_is_no_part_of_the_step_s(observed):
    run = observed(
        before=LOADER,
        loop="boundary()\nfor _, x, y in loader:\n"
        + textwrap.indent(STEP + "boundary()\n", "    "),
    )
    assert run.of("torch_sync") == []
    assert "sync" not in run.parts
    assert "transfer" not in run.parts


def test_a_wait_that_the_driver_reports_is_counted_once(observed):
    run = observed(
        before=LOADER + "iterate = type(iter(loader))\noriginal = iterate.__next__\n"
        "def driven(self):\n"
        "    result = original(self)\n    run.detail.add('input', 1e-9)\n    return result\n"
        "iterate.__next__ = driven\n",
        loop="batches = iter(loader)\nfor i in range(3):\n    boundary()\n    next(batches)\n"
        + textwrap.indent(STEP, "    "),
        after="run.detail._undo()\ndel iterate.__next__\n",
    )
    [split] = run.of("torch_split")
    assert split["parts"]["input"] == [pytest.approx(3e-9), 3]


def test_the_wait_for_a_second_loader_is_input(observed):
    run = observed(before=LOADER + "other = iter(loader)\n", step="next(other)\n" + STEP)
    assert run.parts["input"] == 3


EVALUATE = """\
def evaluate():
    net.eval()
    total = 0.0
    for part in range(2):
        total += net(x).sum().detach()
    net.train()
    return total
"""


@pytest.mark.parametrize("grad", [False, True])
def test_an_evaluation_is_no_forward_of_training(observed, grad):
    before = EVALUATE if grad else EVALUATE.replace("def ", "@torch.no_grad()\ndef ")
    run = observed(STEP + "if i == 1:\n    evaluate()\n", before=before)
    [evaluation] = run.of("torch_evaluation")
    assert run.parts["forward"] == 3
    assert (evaluation["calls"], evaluation["grad"]) == (2, grad)
    assert evaluation["seconds"] > 0
    assert run.text(evaluation["where"]) == "net(x)"
    assert evaluation["loop"]["function"] == "evaluate"
    assert run.text(run.calls["forward"]) == "net(x)"
    assert run.calls["forward"]["line"] != evaluation["where"]["line"]


def test_an_evaluation_between_epochs_is_seen_and_belongs_to_no_step(observed):
    run = observed(
        before=EVALUATE + "import time",
        loop="for i in range(3):\n    boundary()\n"
        + textwrap.indent(STEP, "    ")
        + "boundary()\nevaluate()\ntime.sleep(0.05)\n"
        + "run._at = time.perf_counter()\n"
        + STEP,
    )
    [split] = run.of("torch_split")
    assert split["steps"] == 4
    assert run.parts["forward"] == 4
    assert [each["calls"] for each in run.of("torch_evaluation")] == [2]


def test_a_teacher_in_evaluation_mode_is_part_of_the_step(observed):
    run = observed(
        "with torch.no_grad():\n    goal = teacher(x)\n" + STEP.replace("y)", "goal)"),
        before="teacher = Net(64).eval()",
    )
    assert run.parts["forward"] == 6
    assert not run.of("torch_evaluation")
    assert run.text(run.calls["forward"]) == "net(x)"


def test_a_model_trained_in_evaluation_mode_is_trained(observed):
    run = observed(
        "loss = forward()\n" + STEP.replace("loss = F.mse_loss(net(x), y)\n", ""),
        before="net.eval()\ndef forward():\n    for _ in range(1):\n"
        "        return F.mse_loss(net(x), y)\n",
    )
    assert run.parts["forward"] == 3
    assert not run.of("torch_evaluation")
    assert run.text(run.calls["forward"]) == "net(x)"
    assert list(run.loops.model_calls) == [id(run.module.net)]


def test_a_forked_child_runs_without_hooks():
    one = Run()
    before = patched_names()
    one.boundary()
    detail._forked(lambda: one.detail)
    assert patched_names() == before
