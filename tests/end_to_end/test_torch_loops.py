"""Styles of PyTorch loops of which the zoo has no recording, run and read back as evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kit.processes import events, observed, python
from trainperf import evidence
from trainperf.evidence.events import NoLoop
from trainperf.machine import inspect_machine
from trainperf.model import Ending, Measure, Missing, Site

pytest.importorskip("torch")

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

LOOPS = Path(__file__).parent / "torch_loops"
ENV = {
    "PYTHONPATH": str(LOOPS),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",  # threads that spin where cores are taken make steps of 20 ms
}
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
    epoch_steps: int | None = 40
    parts: tuple[str, ...] = PARTS
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
        "two_loaders.py",
        "for (x, y), (u, v) in zip(one, other):",
        calls={"backward": "loss.backward()", "backwards": 1},
        loader={"batch_size": 16},
        model={"shapes": 2},
    ),
    Seen(
        "compiled.py",
        "for x, y in loader:",
        ("reduce-overhead",),
        stages={ITEM: "DataLoader(Points(), batch_size=16, drop_last=True)"},
        calls=in_the_loop(),
        model={"compiled": True, "cls": "Sequential"},
    ),
    Seen(
        "graphed.py",
        "for batch in loader:",
        parts=("input", "graph", "rest"),
        calls={"forward": None, "backward": None, "updates": 0},
    ),
    Seen(
        "checkpointed.py",
        "for x, y in loader:",
        ("reentrant",),
        calls=in_the_loop(
            forward="checkpoint(model, x", backward="loss_function(output, y).backward()"
        ),
        model={"checkpointing": True},
    ),
    Seen(
        "by_hand.py",
        "for x, y in loader:",
        parts=("input", "forward", "backward", "rest"),
        calls=in_the_loop(step=None, zero_grad=None, updates=0, backwards=1),
    ),
    Seen("endless.py", "for batch in loader:", calls=in_the_loop()),
    Seen(
        "workers.py",
        "for x, y in loader:",
        ("spawn", "persistent"),
        epoch_steps=800,
        stages={ITEM: "DataLoader(\n"},
        calls=in_the_loop(),
        loader={"workers": 1, "start_method": "spawn", "persistent_workers": True},
    ),
]


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


def told(seen: Seen) -> Any:
    """One is run each day, the others nightly."""
    marks = [] if seen.script == "plain.py" else [pytest.mark.long]
    return pytest.param(seen, id=" ".join((seen.script, *seen.arguments)), marks=marks)


@pytest.mark.parametrize("seen", [told(style) for style in STYLES])
def test_a_pytorch_loop_of_this_style_is_seen_and_taken_apart(run, seen):
    recording, found = run(str(LOOPS / seen.script), *seen.arguments)
    loop = found.loop
    assert (loop.kind, loop.batch_size, loop.input_kind) == ("iterator", 16, "DataLoader")
    assert (loop.epoch_steps, loop.updates_per_step) == (seen.epoch_steps, 1)
    assert loop.batch_dtypes == ("float32",)
    assert text_at(loop.where).startswith(seen.line)
    for measure in (found.times.real_, found.times.resident_, found.times.input_):
        assert isinstance(measure, Measure), measure
    assert found.startup is not None
    built = {stage.op: stage for stage in found.stages}
    assert tuple(built)[:3] == (SAMPLER, ITEM, COLLATE)  # there may be more
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
    holds(torch.loader, seen.loader)
    holds(torch.model, {"parameters": 577, "where": NETWORK} | seen.model)
    if seen.script == "by_hand.py":
        assert torch.optimizers == ()
    else:
        holds(torch.optimizer, {"builtin": True, "fused": None} | seen.optimizer)
    assert torch.flag("threads") == 1


def test_an_evaluation_between_epochs_is_seen_and_no_step(run):
    recording, found = run(str(LOOPS / "plain.py"))
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
    _, found = run(str(LOOPS / "two_loaders.py"))
    assert [(one.batch_size, one.role) for one in found.torch.loaders] == [
        (16, "training"),
        (8, "training"),
    ]
    assert found.torch.part("input").calls == pytest.approx(2)
