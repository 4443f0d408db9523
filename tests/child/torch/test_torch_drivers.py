"""Loops over real loaders of PyTorch: reopened, replayed, counted in steps."""

from __future__ import annotations

import weakref
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.script

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset, IterableDataset  # noqa: E402

from looping import STEP_S, Watcher, handed, phases  # noqa: E402
from trainperf.child.timing.device.clock import Mark  # noqa: E402
from trainperf.child.torch.drivers import LoaderDriver, TorchDriver  # noqa: E402
from trainperf.child.torch.loops import TorchLoops  # noqa: E402

Pair = namedtuple("Pair", "x y")


class Points(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> Any:
        return torch.full((2,), float(index + 1)), index


class Stream(IterableDataset):  # type: ignore[type-arg]
    """Without a length."""

    def __iter__(self) -> Any:
        return ((torch.full((2,), float(index + 1)), index) for index in range(24))


class Once:
    """A sampler that is a generator: it gives its indices a single time."""

    def __init__(self, count: int) -> None:
        self._left = iter(range(count))

    def __iter__(self) -> Any:
        return self._left

    def __len__(self) -> int:
        return 48


class Quiet(TorchLoops):
    """Loops without what is measured beside the three times."""

    def facts(self, driver: Any) -> dict[str, Any]:
        return {}

    def record_facts(self, driver: Any) -> None: ...
    def stages(self, driver: Any, deadline: float) -> None: ...
    def probes(self, driver: Any, deadline: float) -> None: ...


class Detail:
    """As much of a `torch_detail.Detail` as the drivers need."""

    def __init__(self, loops: Any) -> None:
        self.steps: list[float] = []
        self.waits: list[float] = []
        self.running: list[bool] = []

    def start(self) -> None:
        self.running.append(True)

    def stop(self) -> None:
        self.running.append(False)

    def stop_between(self) -> None:
        self.running.append(False)

    def step_ended(self, began: Mark, ended: Mark, usual: bool = True) -> None:
        if usual:
            self.steps.append(ended.host - began.host)

    def add(self, name: str, seconds: float) -> None:
        assert name == "input"
        self.waits.append(seconds)


@pytest.fixture
def details(monkeypatch):
    made: list[Detail] = []
    monkeypatch.setattr(
        "trainperf.child.torch.step.detail.Detail",
        lambda loops: made.append(Detail(loops)) or made[-1],
    )
    return made


@pytest.fixture
def watcher(details) -> Iterator[Watcher]:
    made = Watcher()
    yield made
    if made.driver is not None:  # its sampler and its workers are to end with the test
        made.driver.interrupted()
        made.driver.__dict__.clear()


@pytest.fixture
def loops(watcher) -> Quiet:
    return Quiet(watcher)  # type: ignore[arg-type]


class Optimizer:
    """An object by which updates are known; stands for an optimizer of PyTorch's."""

    param_groups = ({"params": []},)


def opened(loops: Quiet, loader: Any) -> Any:
    """The batches of an epoch, as the hooks of `torch.py` hand them to the loop."""
    iterator = DataLoader.__iter__(loader)
    persistent = getattr(loader, "persistent_workers", False)
    iterator._trainperf_dataset = weakref.ref(loader) if persistent else loader
    return handed(loops, iterator, type(iterator).__next__, 0.001)


def train(loops: Quiet, loader: Any, use: Any = lambda batch: None, epochs: int = 50) -> list[Any]:
    """A training loop; returns what `use` made of the batches of the resident phase."""
    optimizer, replayed = Optimizer(), []
    for _ in range(epochs):
        for batch in opened(loops, loader):
            result = use(batch)
            if loops.training.driver and loops.training.driver.resident:
                replayed.append(result)
            loops.process.clock.tick(STEP_S)
            loops.stepped(optimizer)
        if loops.process.finished:
            break
    return replayed


def measured(watcher: Watcher) -> list[str]:
    return [one for one in phases(watcher.record) if one in ("real", "resident", "input")]


def all_three(watcher: Watcher) -> bool:
    return watcher.finished and measured(watcher) == ["real", "resident", "input"] * 5


# ------------------------------------------------------------------ loaders, reopened


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True, "drop_last": True},
        {"num_workers": 1},
        {"num_workers": 1, "persistent_workers": True},
    ],
    ids=str,
)
def test_a_loader_is_opened_again_until_all_is_measured(loops, watcher, options):
    loader = DataLoader(Points(), batch_size=8, **options)
    train(loops, loader)
    assert all_three(watcher)
    assert isinstance(watcher.driver, LoaderDriver)
    assert watcher.driver.loader is loader


def test_a_loader_whose_class_gives_its_batches_by_a_generator_is_opened_again(loops, watcher):
    """As accelerate's is up to 0.33: its batches come from the iterator below."""

    class Shard(DataLoader):
        def __iter__(self):
            yield from super().__iter__()

    train(loops, Shard(Points(), batch_size=8))
    assert all_three(watcher)


def test_a_loader_over_a_stream_without_length_is_opened_again(loops, watcher):
    train(loops, DataLoader(Stream(), batch_size=8))
    assert all_three(watcher)
    assert len(watcher.record.of("epoch")) > 3


def test_a_loader_that_ends_for_good_leaves_what_was_measured_before(loops, watcher):
    loader = DataLoader(Points(), batch_size=1, sampler=Once(40))
    train(loops, loader, epochs=2)
    assert not watcher.finished
    assert measured(watcher)[:3] == ["real", "resident", "input"]
    (missing,) = watcher.record.of("missing")
    assert missing["what"] == "input"


def test_a_loader_made_anew_every_epoch_is_the_loops_if_one_line_makes_it(loops, watcher):
    optimizer = Optimizer()
    for _ in range(3):
        loader = DataLoader(Points(), batch_size=8)
        loader._trainperf_site = ("train.py", 3)
        for number, _ in enumerate(opened(loops, loader)):
            watcher.clock.tick()
            loops.stepped(optimizer)
            if number == 4:
                break
    assert len(watcher.record.of("loop")) == 1
    assert watcher.driver.loader is loader


def test_a_loader_that_is_evaluated_never_drives(loops, watcher):
    for _ in range(4):
        for _ in opened(loops, DataLoader(Points(), batch_size=8)):
            watcher.clock.tick()
    assert watcher.driver is None
    assert watcher.record.of("loop") == []


def test_a_persistent_loader_that_is_evaluated_between_epochs_never_drives(loops, watcher):
    held_out = DataLoader(Points(), batch_size=24, num_workers=1, persistent_workers=True)
    training = DataLoader(Points(), batch_size=8)
    optimizer = Optimizer()
    for _ in range(3):
        for _ in opened(loops, held_out):
            watcher.clock.tick()
        for number, _ in enumerate(opened(loops, training)):
            watcher.clock.tick()
            loops.stepped(optimizer)
            if number == 4:
                break
        assert watcher.driver.loader is training
        assert not watcher.driver._companions


def test_a_loader_beside_the_loops_own_is_replayed_and_drained_with_it(loops, watcher, monkeypatch):
    class Counted(Points):
        taken = 0

        def __getitem__(self, index: int) -> Any:
            Counted.taken += 1
            return super().__getitem__(index)

    def iterator_of(self: Any) -> Any:
        iterator = self._get_iterator()
        iterator._trainperf_dataset = self
        return iterator

    monkeypatch.setattr(DataLoader, "__iter__", iterator_of)
    loader, other = DataLoader(Points(), batch_size=8), DataLoader(Counted(), batch_size=8)
    optimizer, taken = Optimizer(), {"real": 0, "resident": 0}
    for _ in range(100):
        for _ in zip(opened(loops, loader), opened(loops, other), strict=False):
            phase = watcher.driver.plan.phase if watcher.driver else ""
            if phase in taken and watcher.driver.plan.block.started is not None:
                taken[phase] += Counted.taken
            Counted.taken = 0
            watcher.clock.tick(STEP_S)
            loops.stepped(optimizer)
        if watcher.finished:
            break
    assert all_three(watcher)
    assert taken["real"] > 0
    assert taken["resident"] == 0
    assert watcher.driver.companions() == [other]
    assert watcher.driver.updates_per_step == 1


@pytest.mark.parametrize(
    ("options", "buffered"),
    [
        ({}, 0),
        ({"num_workers": 2}, 4),
        ({"num_workers": 2, "prefetch_factor": 3}, 6),
    ],
)
def test_what_workers_have_ready_is_drained_before_it_counts(loops, options, buffered):
    loader = DataLoader(Points(), **options)
    iterator = type("Iterator", (), {"_trainperf_dataset": loader})()
    assert LoaderDriver(loops, iterator).buffered() == buffered


# -------------------------------------------------------------------- steps


def test_accumulation_makes_one_step_of_an_update(loops, watcher):
    loader, optimizer = DataLoader(Points(), batch_size=4), Optimizer()
    for _ in range(50):
        for number, _ in enumerate(opened(loops, loader)):
            watcher.clock.tick()
            if number % 3 == 2:
                loops.stepped(optimizer)
        if watcher.finished:
            break
    steps = [event for event in watcher.record.of("step") if event["p"] == "real"]
    assert watcher.driver.batches_per_step == 3
    assert {round(step["d"], 3) for step in steps} == {0.033}


def test_two_optimizers_make_one_step_of_a_batch(loops, watcher):
    one, other = Optimizer(), Optimizer()
    for _ in opened(loops, DataLoader(Points(), batch_size=4)):
        loops.stepped(one)
        watcher.clock.tick()
        loops.stepped(other)
    steps = [event for event in watcher.record.of("step") if event["p"] == "real"]
    assert (watcher.driver.batches_per_step, watcher.driver.updates_per_step) == (1, 2)
    assert {round(step["d"], 3) for step in steps} == {0.011}


def test_a_step_in_which_a_graph_was_compiled_is_left_out(loops, watcher, monkeypatch):
    count = 0
    monkeypatch.setattr(loops, "compiled", lambda: count in (30, 31))

    def use(batch: Any) -> None:
        nonlocal count
        count += 1

    train(loops, DataLoader(Points(), batch_size=4), use)
    assert len([event for event in watcher.record.of("step") if event["p"] == "traced"]) == 2


def test_a_few_steps_are_taken_apart_once(loops, watcher, details):
    train(loops, DataLoader(Points(), batch_size=4))
    detail, between = details
    assert detail.running == between.running == [True, False]
    assert len(detail.steps) >= 4
    assert {round(seconds, 3) for seconds in detail.steps} == {0.011}
    assert {round(seconds, 3) for seconds in detail.waits} <= {0.001, 0.002}
    assert loops.detail is None


def test_a_loop_that_makes_its_own_batches_is_driven_by_its_updates(loops, watcher, details):
    optimizer = Optimizer()
    for _ in range(1000):
        watcher.clock.tick()
        loops.stepped(optimizer)
        if watcher.finished:
            break
    assert watcher.finished
    assert (watcher.driver.kind, watcher.driver.loader) == ("update", None)
    assert isinstance(watcher.driver, TorchDriver)
    assert measured(watcher) == ["real"] * 5
    assert [detail.running for detail in details] == [[True, False]]


# -------------------------------------------------------------------- replays


def spoil(x: Any) -> float:
    """The first number of a tensor, before the loop wrote over it."""
    seen = float(x[0, 0])
    x.mul_(0)
    return seen


@pytest.mark.parametrize(
    ("collate", "tensor_of"),
    [
        (lambda items: torch.stack([x for x, _ in items]), lambda batch: batch),
        (lambda items: [torch.stack([x for x, _ in items])], lambda batch: batch[0]),
        (lambda items: Pair(torch.stack([x for x, _ in items]), 0), lambda batch: batch.x),
        (lambda items: {"x": torch.stack([x for x, _ in items])}, lambda batch: batch.pop("x")),
        (lambda items: {"a": {"x": torch.stack([x for x, _ in items])}}, lambda b: b["a"].pop("x")),
    ],
    ids=["tensor", "list", "namedtuple", "dict", "nested"],
)
def test_a_batch_that_the_loop_writes_into_is_replayed_unspoilt(loops, watcher, collate, tensor_of):
    loader = DataLoader(Points(), batch_size=4, collate_fn=collate)
    replayed = train(loops, loader, lambda batch: spoil(tensor_of(batch)))
    assert all_three(watcher)
    assert len(replayed) > 8
    assert 0.0 not in replayed


def test_a_batch_that_the_loop_reads_is_replayed_without_a_copy(loops, watcher):
    def use(batch: Any) -> bool:
        kept = watcher.driver.recent_batches() if watcher.driver else []
        return any(one[0] is batch[0] for one in kept)

    replayed = train(loops, DataLoader(Points(), batch_size=4), use)
    assert replayed
    assert all(replayed)


def test_an_input_whose_gradient_is_asked_for_is_replayed_without_it(loops, watcher):
    def use(batch: Any) -> Any:
        x = batch[0]
        before = (x.requires_grad, x.grad)
        x.requires_grad_()
        x.sum().backward()
        return before

    replayed = train(loops, DataLoader(Points(), batch_size=4), use)
    assert replayed
    assert set(replayed) == {(False, None)}


def test_clones_are_made_of_a_few_batches_only(loops, watcher, monkeypatch):
    from trainperf.child.torch import batches

    cloned, phases_of = batches.cloned, []
    monkeypatch.setattr(
        batches,
        "cloned",
        lambda batch: phases_of.append(watcher.driver.plan.phase) or cloned(batch),
    )
    train(loops, DataLoader(Points(), batch_size=4), lambda batch: spoil(batch[0]))
    assert phases_of.count("warmup") + phases_of.count("real") <= 4
    assert phases_of.count("resident") > 8


def test_several_batches_are_replayed_in_turn(loops, watcher):
    replayed = train(loops, DataLoader(Points(), batch_size=4), lambda batch: float(batch[0][0, 0]))
    assert len(set(replayed[:4])) == 4


def test_large_batches_are_replayed_alone(loops, watcher, monkeypatch):
    monkeypatch.setattr("trainperf.child.timing.drivers.iterator_driver.RING_BYTES", 100)
    train(loops, DataLoader(Points(), batch_size=8))
    assert len(watcher.driver.recent_batches()) == 1


def test_where_no_probe_is_made_the_trace_of_passes_is_missing_too(
    watcher: Any, loops: Quiet
) -> None:
    operators = "the operators of a step"
    assert operators in loops.probe_names()
    watcher.world = object()  # several ranks trace no passes
    assert operators in loops.probe_names()
