"""Each hook is made to fail in turn; the script ends as it does without trainperf."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

HARNESS = """
import importlib, json, os, signal, sys
from trainperf.child.process import patching
set_ = []  # (how, owner, name) of each hook that was set
faulty = None

def failing(how, owner, name, act):
    number, label = len(set_), f"{how} {getattr(owner, '__name__', owner)}.{name}"
    set_.append(label)
    if number != faulty:
        return act
    def fail(*args, **kwargs):
        if how == "around later":
            act(*args, **kwargs)
        raise RuntimeError("a fault of ours")
    return fail

real = {name: getattr(patching, name) for name in ("before", "after", "around")}
patching.before = lambda guard, owner, name, what, act: real["before"](
    guard, owner, name, what, failing("before", owner, name, act))
patching.after = lambda guard, owner, name, what, act: real["after"](
    guard, owner, name, what, failing("after", owner, name, act))
def around(guard, owner, name, **more):
    decorate = real["around"](guard, owner, name, **more)
    return lambda act: decorate(failing(os.environ.get("AROUND", "around"), owner, name, act))
patching.around = around

from trainperf.child.process.process import Process
from trainperf.child.start import HOOKS, Frameworks
from trainperf.child.timing.drivers.driver import Driver
from trainperf.child.timing.loop import Plan
from trainperf.child.timing.loops import Loops
from trainperf.child.timing.training import Training

Plan._settled = lambda plan: False  # it warms up for ever
Driver.wants_more = property(lambda self: False)  # and no longer than the script
settings, source, modules = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3].split()
TESTS = sys.argv[4]
for module in modules:
    importlib.import_module(module)

def run(number):
    global faulty
    faulty = number
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        told = {"error": None}
        signal.alarm(60)  # where a fault has it go on for ever
        try:
            if number != "plain":
                if number == "replace":
                    # What `replace` puts in calls these, and PyTorch's own hooks.
                    Loops.next = Loops.bare_update = lambda *given: 1 / 0
                process = Process({**settings, "folder": f"{settings['folder']}/{number}"})
                os.makedirs(process.settings["folder"], exist_ok=True)
                frameworks = Frameworks(Training(process))
                for name, hook in frameworks.hooks().items():
                    if name in sys.modules:
                        hook(sys.modules[name], 0.0)
            scope = {"__name__": "__main__", "TESTS": TESTS}
            exec(compile(source, "train.py", "exec"), scope)
            told["answer"] = scope["answer"]
        except BaseException as error:
            told["error"] = repr(error)
        told["set"] = set_
        os.write(writes, json.dumps(told).encode())
        os._exit(0)
    os.close(writes)
    data = b""
    while piece := os.read(reads, 65536):
        data += piece
    os.close(reads)
    os.waitpid(child, 0)
    return json.loads(data or b'{"error": "killed"}')

plain, healthy = run("plain"), run(None)
healthy["set"].append("replace")
results = [run(number) for number in (*range(len(healthy["set"]) - 1), "replace")]
print(json.dumps([plain, healthy, results]))
"""

TORCH = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=200)
scaler = torch.amp.GradScaler("cpu")
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
answer = []
for workers in (0, 1):
    for x, y in torch.utils.data.DataLoader(data, batch_size=8, num_workers=workers):
        optimizer.zero_grad()
        hidden = torch.utils.checkpoint.checkpoint(model[:2], x, use_reentrant=False)
        loss = torch.nn.functional.mse_loss(model[2](hidden), y) + 0 * model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        answer.append(loss.item())
    with torch.no_grad():
        answer.append(model(x).sum().item())
    torch.save(model.state_dict(), "model.pt")
answer.append(str(torch.autograd.grad(model(x).sum(), model[0].weight)[0].sum().item()))
"""
CAPTURED = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
@torch.compile(backend="eager")  # captures its graph with calls that are hooked within
def forward(x, y):
    return torch.nn.functional.mse_loss(model(x), y)
@torch.compile(backend="eager")
def update():
    optimizer.step()
answer = []
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
for size in (8, 16):  # the second is captured anew
    for x, y in torch.utils.data.DataLoader(data, batch_size=size):
        optimizer.zero_grad()
        loss = forward(x, y)
        loss.backward()
        update()
        answer.append(loss.item())
"""
GRAPHED = """
import sys, torch
sys.path.insert(0, TESTS)
from emulation import fake_cuda
cuda = fake_cuda.install()
cuda.graphs(0.001, strict=True)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y, answer = torch.zeros(8, 4), torch.zeros(8, 1), []
def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    answer.append(loss.item())
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
for epoch in range(2):
    graph = torch.cuda.CUDAGraph()
    for number, (a, b) in enumerate(torch.utils.data.DataLoader(data, batch_size=8)):
        x.copy_(a)
        y.copy_(b)
        if number < 3:
            step()
        elif number == 3:
            graph.capture_begin()
            step()
            graph.capture_end()
        else:
            graph.replay()
"""
KERAS = """
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(0)
x, y = np.random.normal(size=(64, 4)).astype("float32"), np.random.normal(size=(64, 1))
model = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
class Own(keras.callbacks.Callback):
    pass
found = model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Own()],
                  validation_data=(x, y))
answer = [*found.history["loss"], *found.history["val_loss"]]
answer.append(float(model.train_on_batch(x, y)))
data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (a, b)).batch(8).prefetch(1)
optimizer = keras.optimizers.SGD(0.01)
@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(a, training=True) - tf.cast(b, tf.float32)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights),
                                  model.trainable_weights))
    return loss
for epoch in range(2):
    for a, b in data:
        answer.append(float(step(a, b)))
model.save_weights("model.weights.h5")
answer.append(float(model.evaluate(x, y, verbose=0)))
"""
MODULES = {
    TORCH: "torch torch.cuda torch.amp.grad_scaler torch.utils.checkpoint torch.utils.data",
    CAPTURED: "torch torch._dynamo torch.utils.data",
    GRAPHED: "torch torch.cuda torch.cuda.graphs torch.utils.data",
    KERAS: "keras tensorflow",
}


@pytest.mark.parametrize(
    ("source", "how"),
    [
        pytest.param(TORCH, "around", id="torch"),
        pytest.param(TORCH, "around later", id="torch, behind the call", marks=pytest.mark.long),
        pytest.param(CAPTURED, "around", id="torch, captured", marks=pytest.mark.long),
        pytest.param(
            CAPTURED, "around later", id="torch, captured, behind", marks=pytest.mark.long
        ),
        pytest.param(GRAPHED, "around", id="torch, CUDA graph", marks=pytest.mark.long),
        pytest.param(
            GRAPHED, "around later", id="torch, CUDA graph, behind", marks=pytest.mark.long
        ),
        pytest.param(KERAS, "around", id="keras", marks=pytest.mark.long),
        pytest.param(KERAS, "around later", id="keras, behind the call", marks=pytest.mark.long),
    ],
)
def test_a_hook_that_fails_leaves_the_script_as_it_is(tmp_path: Path, source: str, how: str):
    settings = {"folder": str(tmp_path / "run"), "parent": 1, "measure_s": 0.2, "steps": 1000}
    given = json.dumps(settings), source, MODULES[source], str(TESTS)
    done = subprocess.run(
        [sys.executable, "-c", HARNESS, *given],
        cwd=tmp_path,
        env={"PATH": "", "AROUND": how, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    plain, healthy, results = json.loads(done.stdout.splitlines()[-1])
    assert plain["error"] is None
    assert healthy["error"] is None
    assert healthy["answer"] == plain["answer"]
    assert len(results) > 20
    wrong = {
        healthy["set"][number]: result.get("error") or "another answer"
        for number, result in enumerate(results)
        if result.get("answer") != plain["answer"]
    }
    assert not wrong
