"""Facts of a `tf.distribute` strategy, its place in a cluster, its dataset."""

from types import SimpleNamespace

from kit.child import FakeProcess
from trainperf.child.tensorflow.strategies import Strategies, watch_mirrored


def built_with(settings, *arguments, **keywords):
    seen = []
    process = FakeProcess(settings)

    class Strategy:
        def __init__(self, devices=None, cross_device_ops=None):
            seen.append((devices, cross_device_ops))

    class Extended:
        def _call_for_each_replica(self): ...

        _batch_reduce_to = _reduce_to = _call_for_each_replica

    made = Strategies(process)
    module = SimpleNamespace(MirroredStrategy=Strategy, MirroredExtended=Extended)
    watch_mirrored(SimpleNamespace(strategies=made, process=process), module)
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
