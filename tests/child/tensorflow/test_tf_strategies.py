"""Facts of a `tf.distribute` strategy, its place in a cluster, its dataset."""

import json
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from kit.child import FakeProcess
from kit.processes import patient
from trainperf.child.tensorflow.exchange import Exchange
from trainperf.child.tensorflow.strategies import Strategies, watch_mirrored


def built_with(settings, *arguments, **keywords):
    seen = []
    process = FakeProcess(settings)

    class Strategy:
        def __init__(self, devices=None, cross_device_ops=None):
            seen.append((devices, cross_device_ops))

    class Extended:
        def _call_for_each_replica(self): ...

    made = Strategies(process, Exchange(SimpleNamespace(process=process, driver=None)))
    module = SimpleNamespace(MirroredStrategy=Strategy, MirroredExtended=Extended)
    watch_mirrored(SimpleNamespace(strategies=made), module)
    Strategy(*arguments, **keywords)
    return seen[0]


def test_a_strategy_is_given_what_the_user_gives_where_nothing_else_is_asked_for():
    assert built_with({}) == (None, None)
    assert built_with({"devices": None}, ["a", "b"], "ops") == (["a", "b"], "ops")


def test_a_strategy_is_given_the_first_of_its_devices_where_fewer_are_asked_for():
    assert built_with({"devices": 1}, ["a", "b"]) == (["a"], None)
    assert built_with({"devices": 2}, devices=("a", "b", "c"), cross_device_ops="ops") == (
        ["a", "b"],
        "ops",
    )


# --------------------------------------------------------------------------- its dataset


DATASETS = """
    import json
    import sys

    import tensorflow as tf

    from trainperf.child.tensorflow import strategies

    folder = sys.argv[1]
    names = [f"{folder}/{number}.tfrecord" for number in range(3)]
    for name in names:
        with tf.io.TFRecordWriter(name) as writer:
            writer.write(b"x")
    data = tf.data
    records = data.TFRecordDataset(names)
    listed = data.Dataset.list_files(f"{folder}/*.tfrecord")
    options = data.Options()
    options.experimental_distribute.auto_shard_policy = data.experimental.AutoShardPolicy.OFF
    datasets = {
        "numbers": data.Dataset.range(8),
        "words": data.Dataset.from_tensor_slices(["a", "b"]).map(tf.strings.length),
        "whole files": listed.map(tf.io.read_file),
        "records": records.map(tf.strings.length).batch(2),
        "parallel reads": data.TFRecordDataset(names, num_parallel_reads=2),
        "listed": listed.interleave(data.TFRecordDataset, cycle_length=2).batch(2),
        "listed one by one": listed.flat_map(lambda name: data.TFRecordDataset(name)),
        "not sharded": records.with_options(options),
    }
    told = {name: strategies.spread(one, 2) for name, one in datasets.items()}
    print(json.dumps({name: [one["files"], one["auto_shard"]] for name, one in told.items()}))
"""


@pytest.mark.script
def test_the_files_of_datasets_are_counted_where_tensorflow_shards_by_them(tmp_path):
    path = tmp_path / "datasets.py"
    path.write_text(textwrap.dedent(DATASETS), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path)],
        env=patient(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "numbers": [None, "DATA"],
        "words": [None, "DATA"],
        "whole files": [None, "DATA"],
        "records": [3, "FILE"],
        "parallel reads": [3, "FILE"],
        "listed": [3, "FILE"],
        "listed one by one": [3, "FILE"],
        "not sharded": [3, "OFF"],
    }
