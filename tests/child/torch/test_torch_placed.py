"""Models spread over devices by other means than DDP, and who writes checkpoints."""

from __future__ import annotations

import gc
import io
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("PyTorch without torch.distributed", allow_module_level=True)

from torch import nn  # noqa: E402

from processes import driver_of, hooked  # noqa: E402
from trainperf.child.torch.exchange import placed  # noqa: E402


@pytest.fixture
def loops():
    gc.collect()  # models of other tests are not what is placed here
    with hooked() as found:
        yield found


def recorded(loops):
    driver = driver_of(loops)
    placed.record(driver)
    return driver.facts


def test_of_a_plain_model_nothing_is_said(loops, monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    kept = nn.Linear(2, 2)
    facts = recorded(loops)
    assert facts == {"local_world_size": None, "checkpoint_writes": 0}
    del kept


def test_the_launcher_says_how_many_processes_the_host_has(loops, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert recorded(loops)["local_world_size"] == 4


def test_a_data_parallel_model_says_where_it_was_built(loops):
    kept = nn.DataParallel(nn.Linear(2, 2))
    found = recorded(loops)["data_parallel"]
    assert found["model"] == "Linear"
    assert found["where"]["file"] == __file__
    assert "end_col" in found["where"]
    assert found["device_ids"] == list(range(torch.cuda.device_count()))
    del kept


def test_a_model_on_one_device_was_not_spread(loops):
    net = nn.Linear(2, 2)
    loops.model_calls[id(net)] = (net, (), {})
    assert "model_devices" not in recorded(loops)


def test_a_model_on_two_devices_was_placed_by_hand(loops):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    loops.model_calls[id(net)] = (net, (), {})
    assert recorded(loops)["model_devices"] == {
        "model": "Sequential",
        "devices": {"cpu": 2, "meta": 2},
    }


def test_checkpoints_are_counted_once_a_loop_runs(loops, tmp_path):
    loops.training.driver = None
    torch.serialization.save({}, tmp_path / "before.pt")
    loops.training.driver = SimpleNamespace()
    torch.serialization.save({}, io.BytesIO())
    torch.serialization.save({}, tmp_path / "one.pt")
    with open(tmp_path / "two.pt", "wb") as file:
        torch.serialization.save({}, file)
    loops.process.off = True
    torch.serialization.save({}, tmp_path / "ours.pt")
    facts = recorded(loops)
    assert facts["checkpoint_writes"] == 2
    assert facts["checkpoint_where"]["function"].startswith("test_checkpoints_are_counted")
    lines = [event["where"]["line"] for event in loops.process.record.of("saving")]
    assert len(set(lines)) == 2
    assert loops.training.driver.evaluated  # such a step is no usual one


def test_a_checkpoint_is_written_as_without_us(loops, tmp_path):
    torch.serialization.save({"x": 1}, f=tmp_path / "one.pt")
    assert torch.load(tmp_path / "one.pt") == {"x": 1}
