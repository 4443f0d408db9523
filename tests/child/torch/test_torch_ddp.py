"""`DistributedDataParallel` as it is seen in a process group of one process."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("PyTorch without torch.distributed", allow_module_level=True)

from torch import nn  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from processes import hooked, process_group, soon, train  # noqa: E402
from trainperf.child.torch.exchange import ddp_facts, ddp_times  # noqa: E402
from trainperf.model import Ddp  # noqa: E402

X = torch.ones(2, 3)


@pytest.fixture
def loops():
    with process_group(), hooked() as found:
        yield found


class Branches(nn.Module):
    """Of two layers only the first is used."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(3, 3)
        self.spare = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.used(x)


def built(model: Any = None, **settings: Any) -> tuple[Any, Any]:
    ddp = DistributedDataParallel(model or nn.Linear(3, 3), **settings)
    return ddp, torch.optim.SGD(ddp.parameters(), lr=1e-3)


def facts(loops: Any) -> dict[str, Any]:
    ((ddp, one),) = loops.ddps.alive
    return ddp_facts.facts(ddp, one)


def test_nothing_is_said_of_one_that_is_gone(loops):
    ddp, _ = built()
    del ddp, _
    assert soon(lambda: loops.ddps.alive == [])


def test_one_that_we_build_ourselves_is_not_the_users(loops):
    loops.process.off = True
    kept = built()
    assert loops.ddps.alive == []
    del kept


def test_the_program_finds_the_class_as_it_was(loops):
    kept = built()
    assert inspect.signature(DistributedDataParallel.forward).parameters.keys() == {
        "self",
        "inputs",
        "kwargs",
    }
    assert DistributedDataParallel.__init__.__name__ == "__init__"
    assert not [name for name in vars(kept[0]) if "trainperf" in name]


def test_it_says_which_call_built_it_and_what_the_call_gives(loops):
    kept = DistributedDataParallel(nn.Linear(3, 3), None, bucket_cap_mb=5, static_graph=True)
    found = facts(loops)
    site = found["where"]
    line = Path(site["file"]).read_text(encoding="utf-8").splitlines()[site["line"] - 1]
    assert line[site["col"] : site["end_col"]].startswith("DistributedDataParallel(nn.Linear")
    assert found["given"] == ["device_ids", "bucket_cap_mb", "static_graph"]
    assert found["settings"]["bucket_cap_mb"] == 5
    assert found["settings"]["static_graph"] is True
    assert found["settings"]["gradient_as_bucket_view"] is False
    assert found["settings"]["init_sync"] is True
    assert found.keys() == set(Ddp.__dataclass_fields__)
    del kept


def test_settings_not_given_have_their_effective_values(loops):
    kept = built()
    settings = facts(loops)["settings"]
    assert settings["bucket_cap_mb"] == 25
    assert settings["broadcast_buffers"] is True
    assert settings["find_unused_parameters"] is False
    del kept


def test_a_call_in_a_library_has_no_extent_in_the_users_source(loops):
    def prepare(model: Any) -> Any:
        return DistributedDataParallel(model)

    code = compile(inspect.getsource(prepare).strip(), "/usr/lib/site-packages/lib.py", "exec")
    names = {"DistributedDataParallel": DistributedDataParallel, "Any": Any}
    exec(code, names)
    kept = names["prepare"](nn.Linear(3, 3))
    where = facts(loops)["where"]
    assert where["file"] == __file__
    assert "end_line" not in where
    del kept


def test_without_an_update_nothing_is_counted(loops):
    ddp, _ = built()
    ddp(X).sum().backward()
    found = facts(loops)
    assert found["micro_steps"] is None
    assert found["synced"] is None
    assert found["unused"] is None


def test_every_backward_of_an_update_is_counted_and_those_that_exchange(loops):
    ddp, optimizer = built()
    for _ in range(3):
        train(loops, ddp, optimizer, [X, X, X], [False, False, True])
    found = facts(loops)
    assert (found["micro_steps"], found["synced"]) == (3, 1)


def test_accumulation_without_no_sync_exchanges_every_time(loops):
    ddp, optimizer = built()
    train(loops, ddp, optimizer, [X, X], [True, True])
    found = facts(loops)
    assert (found["micro_steps"], found["synced"]) == (2, 2)


def test_a_setting_of_the_users_own_hand_counts_as_no_sync(loops):
    ddp, optimizer = built()
    for synced in (False, True):
        ddp.require_backward_grad_sync = synced
        loss = ddp(X).sum()
        loops.backward_begins(loss)
        loss.backward()
        loops.backward_ended()
    optimizer.step()
    loops.stepped(optimizer)
    found = facts(loops)
    assert (found["micro_steps"], found["synced"]) == (2, 1)


def test_an_evaluation_counts_for_nothing(loops):
    ddp, optimizer = built()
    with torch.no_grad():
        ddp(X)
    train(loops, ddp, optimizer, [X], [True])
    assert facts(loops)["micro_steps"] == 1


def test_two_forwards_of_one_backward_count_once(loops):
    ddp, optimizer = built()
    loss = ddp(X).sum() + ddp(X).sum()
    loops.backward_begins(loss)
    loss.backward()
    loops.backward_ended()
    optimizer.step()
    loops.stepped(optimizer)
    assert facts(loops)["micro_steps"] == 1


def test_the_update_of_another_model_is_not_its_own(loops):
    ddp, _ = built()
    other = torch.optim.SGD(nn.Linear(3, 3).parameters(), lr=0.1)
    loss = ddp(X).sum()
    loops.backward_begins(loss)
    loss.backward()
    loops.backward_ended()
    loops.stepped(other)
    assert facts(loops)["micro_steps"] is None


def test_a_copy_is_one_of_its_own(loops):
    ddp, optimizer = built()
    train(loops, ddp, optimizer, [X], [True])
    other = copy.deepcopy(ddp)
    train(loops, other, torch.optim.SGD(other.parameters(), lr=0.1), [X], [True])
    assert [one.updates for _, one in loops.ddps.alive] == [1, 1]


def test_parameters_without_a_gradient_are_counted(loops):
    ddp, optimizer = built(Branches(), find_unused_parameters=True)
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    found = facts(loops)
    assert found["unused"] == 2
    assert found["graph_is_static"] is True


def test_where_all_parameters_are_used_none_is_unused(loops):
    ddp, optimizer = built(find_unused_parameters=True)
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    assert facts(loops)["unused"] == 0


def test_whether_the_graph_is_static_is_known_only_where_ddp_searches_it(loops):
    ddp, optimizer = built()
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    assert facts(loops)["graph_is_static"] is None


def test_unused_parameters_that_only_ddp_knows_of_are_not_told_as_none(loops):
    kept = built()
    ((_, one),) = loops.ddps.alive
    assert ddp_facts.unused(one, {"unused_parameter_size": 48}) == 1
    assert ddp_facts.unused(one, {"unused_parameter_size": 0}) is None
    del kept


def test_all_gradients_in_one_bucket_are_what_is_sent(loops):
    ddp, optimizer = built()
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    assert ddp_facts.sent(ddp) == (48, [48])


def test_buckets_are_those_that_ddp_made(loops):
    model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(3)))
    ddp, optimizer = built(model, bucket_cap_mb=1)
    for _ in range(3):
        train(loops, ddp, optimizer, [torch.ones(1, 512)], [True])
    total, buckets = ddp_facts.sent(ddp)
    assert total == sum(buckets) == 3 * 512 * 512 * 4
    assert len(buckets) > 1


def test_a_compressing_hook_sends_half(loops):
    ddp, _ = built()
    ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    assert facts(loops)["comm_hook"] == "fp16_compress_hook"
    assert ddp_facts.sent(ddp)[0] == 24


def test_what_a_hook_of_the_users_own_sends_is_not_known(loops):
    def halves(state, bucket):
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    ddp, _ = built()
    ddp.register_comm_hook(None, halves)
    assert "halves" in facts(loops)["comm_hook"]
    assert ddp_facts.sent(ddp) == (None, [])


# ----------------------------------------------------------------------- DDP's times


def test_no_time_is_told_of_steps_that_ddp_did_not_time(loops):
    ddp, optimizer = built()
    train(loops, ddp, optimizer, [X], [True])
    ((_, one),) = loops.ddps.alive
    assert ddp_facts.overlap(ddp, one) is None


def test_every_step_that_is_taken_apart_is_timed_once(loops):
    ddp, optimizer = built()
    for _ in range(15):
        train(loops, ddp, optimizer, [X], [True])
    loops.detail = object()
    for _ in range(6):
        train(loops, ddp, optimizer, [X], [True])
    loops.detail = None
    for _ in range(3):
        train(loops, ddp, optimizer, [X], [True])
    ((_, one),) = loops.ddps.alive
    found = ddp_facts.overlap(ddp, one)
    assert found["steps"] == 4
    assert found["compute_s"] > 0
    assert found["exchange_s"] > 0
    assert 0 <= found["overlap_s"] <= min(found["compute_s"], found["exchange_s"])


class Logging:
    """A DDP that logs `seconds` for each step that it is asked to time."""

    def __init__(self) -> None:
        self.logger = self
        self.rate = 100
        self.data = {"iteration": 10}

    def _get_ddp_logging_data(self) -> dict[str, int]:
        return self.data

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        self.rate = rate

    def step(self, times: ddp_times.Times, seconds: int, each_step: bool) -> None:
        """The last step took so long; the next one calls forward."""
        names = "backward_compute_time", "backward_comm_time", "backward_compute_comm_overlap_time"
        if self.rate == 1:
            number = {"iteration": self.data["iteration"] + 1}
            self.data = number | dict.fromkeys(names, seconds * 10**9)
        times.sample(self, each_step)


def test_the_step_in_which_ddp_is_asked_to_time_each_was_timed_from_long_before():
    times, ddp = ddp_times.Times(), Logging()
    for seconds, each_step in ((1, True), (500, True), (2, True), (3, True), (4, False)):
        ddp.step(times, seconds, each_step)
    assert [compute for compute, _, _ in times.samples] == [2, 3]
    assert ddp.rate == 100


def test_an_update_of_two_exchanges_takes_twice_as_long():
    times = ddp_times.Times()
    times.samples = [(1.0, 3.0, 0.5), (3.0, 1.0, 0.5)]
    assert times.overlap(None, 2.0) == {
        "compute_s": 4.0,
        "exchange_s": 4.0,
        "overlap_s": 1.0,
        "steps": 2,
    }


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"backward_compute_time": 5, "backward_comm_time": 5},
        {
            "backward_compute_time": 0,
            "backward_comm_time": 5,
            "backward_compute_comm_overlap_time": 0,
        },
        {
            "backward_compute_time": 5,
            "backward_comm_time": 5,
            "backward_compute_comm_overlap_time": -1,
        },
    ],
)
def test_times_that_ddp_does_not_have_are_no_times(data):
    assert ddp_times.last(data) is None
