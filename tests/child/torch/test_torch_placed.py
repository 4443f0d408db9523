"""Models spread over devices by other means than DDP, and who writes checkpoints."""

from __future__ import annotations

import gc
import io
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from kit.exchange import driver_of, hooked
from trainperf.child.torch.built.places import ModelCall
from trainperf.child.torch.exchange import exchange


@pytest.fixture
def loops():
    gc.collect()  # models of other tests are not what is placed here
    with hooked() as found:
        yield found


def recorded(loops):
    driver = driver_of(loops)
    exchange._placed(driver)
    return driver.facts


def test_a_data_parallel_model_says_where_it_was_built(loops):
    kept = nn.DataParallel(nn.Linear(2, 2))
    found = recorded(loops)["data_parallel"]
    assert found["model"] == "Linear"
    assert found["where"]["file"] == __file__
    assert "end_col" in found["where"]
    assert found["device_ids"] == list(range(torch.cuda.device_count()))
    del kept


def test_a_model_on_two_devices_was_placed_by_hand(loops):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    loops.models.calls[id(net)] = ModelCall(net, (), {})
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


def test_a_checkpoint_of_shards_is_one_and_none_that_each_rank_writes(loops, tmp_path):
    def save(state, *, checkpoint_id):
        for name, tensor in state.items():
            torch.serialization.save(tensor, checkpoint_id / name)

    saver = SimpleNamespace(__name__="torch.distributed.checkpoint.state_dict_saver", save=save)
    exchange.watch_saves(loops, saver)
    loops.training.driver = SimpleNamespace()
    saver.save({"a": torch.ones(1), "b": torch.ones(1)}, checkpoint_id=tmp_path)
    assert len(list(loops.process.record.of("saving"))) == 1
    assert recorded(loops)["checkpoint_writes"] == 0
