"""Every style of PyTorch loop, run under observation and read back as evidence.

Of those that the zoo has, its recording is read, which is made anew each night.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import zoo
from kit.processes import events, observed, python
from trainperf import evidence
from trainperf.errors import NotMeasured
from trainperf.evidence.events import NoLoop
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Evidence, Measure, Missing, Recording, Site

pytest.importorskip("torch")

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

LOOPS = Path(__file__).parent / "torch_loops"
ENV = {
    "PYTHONPATH": str(LOOPS),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",  # threads that spin where cores are taken make steps of 20 ms
}
ALL = ("real", "resident", "input")
PARTS = ("input", "forward", "backward", "optimizer", "zero_grad", "rest")
ITEM, COLLATE, SAMPLER = "dataset item", "collate", "sampler"
LOSS = "loss_function(model(x), y)"
NETWORK = "nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))"
SGD = "torch.optim.SGD(model.parameters(), lr=0.01)"
LOADER = "DataLoader(Points(), batch_size=16)"


@dataclass(frozen=True)
class Seen:
    """The view that there must be of a script; the source at a site begins with the text here.

    `stages` are those that the user's code makes, with the place where they are set;
    `calls`, `loader`, `model` and `optimizer` hold facts by name.
    """

    script: str
    line: str
    arguments: tuple[str, ...] = ()
    kind: str = "iterator"
    batch: int = 16
    epoch_steps: int | None = 40
    measured: tuple[str, ...] = ALL
    feeds: str = "DataLoader"
    updates: int = 1
    parts: tuple[str, ...] = PARTS
    ops: tuple[str, ...] = (SAMPLER, ITEM, COLLATE)
    stages: dict[str, str] = field(default_factory=lambda: {ITEM: LOADER})
    calls: dict[str, object] = field(default_factory=dict)
    loader: dict[str, object] = field(default_factory=dict)
    model: dict[str, object] = field(default_factory=dict)
    optimizer: dict[str, object] = field(default_factory=dict)


def in_the_loop(**others: object) -> dict[str, object]:
    """The calls of most scripts."""
    usual = {"forward": "model(x)", "backward": f"{LOSS}.backward()", "step": "optimizer.step()"}
    return {**usual, **others}


STYLES = [
    Seen(
        "plain.py",
        "for x, y in loader:",
        stages={ITEM: "DataLoader(Points(), batch_size=16, shuffle=True)"},
        calls=in_the_loop(zero_grad="optimizer.zero_grad()", backwards=1, updates=1, clip=None),
        loader={"shuffled": True, "sampler": "RandomSampler", "workers": 0, "batches": 40},
        model={"cls": "Sequential", "name": "model", "trained": True, "call": "model(x)"},
        optimizer={"step_where": "optimizer.step()", "tensors": 4},
    ),
    Seen(
        "iterable.py",
        "for x, y in DataLoader(",
        ops=(ITEM, COLLATE),
        stages={ITEM: "DataLoader(Stream(), batch_size=16)"},
        calls=in_the_loop(),
        loader={"iterable": True, "sharded": False, "batches": None, "dataset": "Stream"},
    ),
    Seen(
        "samplers.py",
        "for batch in loader:",
        stages=dict.fromkeys((SAMPLER, ITEM, COLLATE), "DataLoader(Points(), batch_sampler="),
        calls={"forward": 'model(batch.pop("x"))', "backward": "loss.backward()"},
        loader={"sampler": "Halves", "batch_size": None, "shuffled": False},
        optimizer={"cls": "AdamW"},
    ),
    Seen(
        "accumulation.py",
        "for number, (x, y) in enumerate(loader):",
        batch=64,
        epoch_steps=10,  # of four batches each
        calls={
            "forward": "model(x)",
            "backward": "loss.backward()",
            "step": "optimizer.step()",
            "clip": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            "backwards": 4,
            "updates": 1,
        },
        loader={"batch_size": 16},
    ),
    Seen(
        "gan.py",
        "for real, _ in loader:",
        updates=2,
        calls={"backwards": 2, "updates": 2},
        optimizer={"cls": "Adam", "step_where": "for_judge.step()"},
        model={"name": "judge"},
    ),
    Seen(
        "two_loaders.py",
        "for (x, y), (u, v) in zip(one, other):",
        calls={"backward": "loss.backward()", "backwards": 1},
        loader={"batch_size": 16},
        model={"shapes": 2},
    ),
    Seen(
        "get_batch.py",
        "optimizer.step()",
        kind="update",
        epoch_steps=None,
        measured=("real",),
        feeds="arrays in the loop",
        parts=("forward", "backward", "optimizer", "zero_grad", "sync", "rest"),
        ops=(),
        stages={},
        calls={"forward": "model(x)", "backward": "loss.backward()", "step": "optimizer.step()"},
        optimizer={"cls": "AdamW"},
    ),
    Seen(
        "lbfgs.py",
        "for x, y in loader:",
        batch=64,
        epoch_steps=10,
        stages={ITEM: "DataLoader(Points(), batch_size=64)"},
        calls=in_the_loop(
            backward="loss.backward()", step="optimizer.step(closure)", closure=True, updates=1
        ),
        optimizer={"cls": "LBFGS", "can_fuse": False},
    ),
    Seen(
        "scaler.py",
        "for x, y in loader:",
        calls=in_the_loop(
            backward="scaler.scale(loss).backward()",
            step="scaler.step(optimizer)",
            autocast="float16",
            scaler=True,
        ),
    ),
    *(
        Seen(
            "compiled.py",
            "for x, y in loader:",
            mode,
            stages={ITEM: "DataLoader(Points(), batch_size=16, drop_last=True)"},
            calls=in_the_loop(),
            model={"compiled": True, "cls": "Sequential"},
        )
        for mode in ((), ("reduce-overhead",))
    ),
    Seen(
        "in_backward.py",
        "for x, y in loader:",
        calls=in_the_loop(step="optimizers[parameter].step()", zero_grad="optimizers[param"),
        optimizer={"tensors": 1, "where": "torch.optim.SGD([one], lr=0.01)"},
    ),
    Seen(
        "graphed.py",
        "for batch in loader:",
        parts=("input", "graph", "rest"),
        calls={"forward": None, "backward": None, "updates": 0},
    ),
    *(
        Seen(
            "checkpointed.py",
            "for x, y in loader:",
            words,
            calls=in_the_loop(
                forward="checkpoint(model, x", backward="loss_function(output, y).backward()"
            ),
            model={"checkpointing": True},
        )
        for words in [("reentrant",), ()]
    ),
    Seen(
        "by_hand.py",
        "for x, y in loader:",
        parts=("input", "forward", "backward", "rest"),
        calls=in_the_loop(step=None, zero_grad=None, updates=0, backwards=1),
    ),
    Seen("endless.py", "for batch in loader:", calls=in_the_loop()),
    Seen(
        "two_phases.py",
        "(train_step(model, optimizer, x, y) for x, y in loader)",
        parts=(*PARTS, "sync"),
        calls=in_the_loop(backward="loss.backward()", zero_grad="optimizer.zero_grad(set"),
        optimizer={"where": "torch.optim.SGD(model.parameters(), lr=rate)"},
    ),
    Seen(
        "keras_torch.py",
        "model.fit(x, x.sum(1)",
        kind="fit",
        feeds="numpy",
        epoch_steps=80,
        ops=(),
        calls={"forward": None, "backward": None, "step": None, "backwards": 1},
        model={"where": "keras.Sequential(", "call": None},
    ),
]

WORKERS = [  # test_torch_safety looks at those of the other kinds
    Seen(
        "workers.py",
        "for x, y in loader:",
        words,
        epoch_steps=800,
        stages={ITEM: "DataLoader(\n"},
        calls=in_the_loop(),
        loader={
            "workers": 1,
            "start_method": words[0],
            "persistent_workers": words[1:] == ("persistent",),
        },
    )
    for words in [("fork",), ("spawn", "persistent")]
]

Run = Callable[..., tuple[Recording, Evidence]]


@pytest.fixture(scope="module")
def kept() -> dict[tuple[str, ...], tuple[Recording, Evidence]]:
    return {}


@pytest.fixture
def run(tmp_path: Path, kept: dict[tuple[str, ...], tuple[Recording, Evidence]]) -> Run:
    """Run a script of `torch_loops` under observation, or recall that it was: here, or there."""

    def once(name: str, *words: str) -> tuple[Recording, Evidence]:
        if in_zoo(name, *words):
            recorded = zoo.load(in_zoo(name, *words))
            return recorded.recording, recorded.evidence
        if (name, *words) not in kept:
            work = tmp_path / "work"
            work.mkdir()
            recording = observed(
                python(str(LOOPS / name), *words),
                work,
                tmp_path / "run",
                {**ENV, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")},
                measure_s=1.2,
                extra_s=1.2,
            )
            assert recording.ending is Ending.MEASURED, recording.output_tail
            assert [event["text"] for event in events(recording, "note")] == []
            assert "Traceback" not in recording.output_tail
            assert list(work.iterdir()) == []
            read = evidence.read(recording, inspect_machine(directory=work))
            kept[name, *words] = recording, read
        return kept[name, *words]

    return once


def in_zoo(script: str, *arguments: str) -> str:
    """The name of the zoo's recording of a script, if there is one."""
    name = f"torch_loop_{Path(script).stem}"
    recorded = zoo.SCRIPTS.get(name)
    return name if recorded is not None and recorded.arguments == arguments else ""


def text_at(site: Site | None) -> str:
    """The source at a site: of one that is exact from its first column to its last."""
    assert site is not None
    lines = Path(site.file).read_text(encoding="utf-8").splitlines(keepends=True)
    if not site.exact:
        return lines[site.line - 1].strip()
    lines = lines[site.line - 1 : site.end_line]
    lines[-1] = lines[-1][: site.end_col]
    lines[0] = lines[0][site.col :]
    return "".join(lines)


def holds(value: object, facts: dict[str, object]) -> None:
    """Assert that `value` has these facts; a place by how the source there begins."""
    for name, expected in facts.items():
        found = getattr(value, name)
        if isinstance(found, Site):
            found = text_at(found)
        if isinstance(expected, str):
            assert found.startswith(expected), (name, found)
        else:
            assert (
                found == pytest.approx(expected)
                if isinstance(expected, int)
                else (found == expected)
            ), (name, found)


SENTINELS = ("plain.py",)
"""Of those that are run, these run each day, the others nightly."""


def told(seen: Seen) -> Any:
    daily = seen.script in SENTINELS or in_zoo(seen.script, *seen.arguments)
    marks = [] if daily else [pytest.mark.long]
    return pytest.param(seen, id=" ".join((seen.script, *seen.arguments)), marks=marks)


@pytest.mark.parametrize("seen", [told(style) for style in STYLES + WORKERS])
def test_a_pytorch_loop_of_this_style_is_seen_and_taken_apart(run, seen):
    recording, found = run(seen.script, *seen.arguments)
    loop = found.loop
    assert (loop.kind, loop.batch_size, loop.input_kind) == (seen.kind, seen.batch, seen.feeds)
    assert (loop.epoch_steps, loop.updates_per_step) == (seen.epoch_steps, seen.updates)
    assert loop.batch_dtypes == ("float32",)
    assert text_at(loop.where).startswith(seen.line)
    for name in ALL:
        measure = getattr(found.times, f"{name}_")
        assert isinstance(measure, Measure) == (name in seen.measured), (name, measure)
    assert found.startup is not None
    if seen.ops:
        built = {stage.op: stage for stage in found.stages}
        assert tuple(built)[: len(seen.ops)] == seen.ops  # recordings may have more
        for op, text in seen.stages.items():
            assert text_at(built[op].where).startswith(text)
            assert built[op].by_user
            assert isinstance(built[op].cumulative, float)
    torch = found.torch
    # On a busy machine their sum may not be that of a step: then none of them is in the evidence.
    parts = {name for event in events(recording, "torch_split") for name in event["parts"]}
    assert parts == set(seen.parts)
    assert isinstance(torch.split_, Missing) or {part.name for part in torch.split} == parts
    holds(torch.calls, seen.calls)
    if seen.feeds == "DataLoader":
        holds(torch.loader, seen.loader)
    else:
        assert torch.loaders == ()
    holds(torch.model, {"parameters": 577, "where": NETWORK} | seen.model)
    if "step" in seen.calls and seen.calls["step"] is None:
        assert torch.optimizers == ()
    else:
        holds(torch.optimizer, {"builtin": True, "fused": None} | seen.optimizer)
    assert torch.flag("threads") == 1


def test_an_evaluation_between_epochs_is_seen_and_no_step(run):
    recording, found = run("plain.py")
    evaluation = found.torch.evaluation
    assert evaluation is not None
    assert text_at(evaluation.where) == "model(x)"
    assert evaluation.where.line > found.torch.calls.forward.line
    assert not evaluation.grad
    roles = {loader.batch_size: loader.role for loader in found.torch.loaders}
    assert roles == {16: "training", 32: "evaluation"}
    assert {event["kind"] for event in events(recording, "loop")} == {"iterator"}


def test_a_script_that_only_evaluates_has_no_training_loop(tmp_path):
    command = python(str(LOOPS / "evaluation_only.py"))
    env = {**ENV, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")}
    recording = observed(command, tmp_path, tmp_path / "run", env)
    assert recording.ending is Ending.FINISHED
    with pytest.raises(NoLoop) as caught:
        evidence.read(recording, inspect_machine(directory=tmp_path))
    assert any(text.startswith("PyTorch 2.") for text in caught.value.seen)
    assert "no weights were updated" in caught.value.seen


@pytest.mark.long
def test_both_loaders_of_a_step_are_training(run):
    _, found = run("two_loaders.py")
    assert [(one.batch_size, one.role) for one in found.torch.loaders] == [
        (16, "training"),
        (8, "training"),
    ]
    assert found.torch.part("input").calls == pytest.approx(2)


def test_every_model_and_optimizer_of_a_step_has_its_place(run):
    _, found = run("gan.py")
    assert {one.name: text_at(one.where)[:9] for one in found.torch.models} == {
        "judge": NETWORK[:9],
        "maker": "nn.Linear",
    }
    steps = {text_at(one.step_where) for one in found.torch.optimizers}
    assert steps == {"for_judge.step()", "for_maker.step()"}
    places = {text_at(one.where) for one in found.torch.optimizers}
    assert places == {
        "torch.optim.Adam(judge.parameters())",
        "torch.optim.Adam(maker.parameters())",
    }


def test_what_makes_the_host_wait_is_named_with_its_line(run):
    _, found = run("two_phases.py")
    (sync,) = found.torch.syncs
    assert (sync.what, text_at(sync.where)) == ("item", "loss.item()")
    assert sync.calls == pytest.approx(1)
    assert not sync.printed


def test_a_closure_is_called_several_times_in_a_step(run):
    _, found = run("lbfgs.py")
    assert found.torch.calls.backwards > 1.2
    assert text_at(found.torch.calls.zero_grad) == "optimizer.zero_grad()"


def test_batches_of_the_scripts_own_making_are_said_not_to_be_measured(run):
    _, found = run("get_batch.py")
    with pytest.raises(NotMeasured, match="makes its own batches"):
        _ = found.stages
    with pytest.raises(NotMeasured, match="own batches"):
        _ = found.times.input


def test_the_functions_of_the_user_stand_with_their_stages(run):
    _, found = run("samplers.py")
    functions = {stage.op: stage.function.name for stage in found.stages}
    assert functions == {SAMPLER: "Halves.__iter__", ITEM: "Points.__getitem__", COLLATE: "collate"}
