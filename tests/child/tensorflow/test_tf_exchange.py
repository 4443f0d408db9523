"""The step without the exchange between replicas: what is left out of it, and what is not."""

import json
import subprocess
import sys
import textwrap

import pytest

from kit.processes import patient
from trainperf.child.tensorflow.strategies import NO_EXCHANGE

PROGRAM = """
    import json
    import sys
    from types import SimpleNamespace

    import tensorflow as tf
    from tensorflow.python.distribute import mirrored_strategy
    from tensorflow.python.eager.polymorphic_function import function_context

    from trainperf.child.tensorflow.strategies import Exchange

    def failed(what, error):
        raise error

    process = SimpleNamespace(off=False, failed=failed)
    exchange = Exchange(process)
    exchange.key_functions(function_context)
    exchange.watch(mirrored_strategy.MirroredExtended)

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    way, operations = sys.argv[1:]
    one = tf.distribute.ReductionToOneDevice() if operations == "one" else None
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=one)
    with strategy.scope():
        import keras

        model = keras.Sequential([keras.layers.Dense(4), keras.layers.BatchNormalization()])
        model.build((None, 8))
        sgd = keras.optimizers.SGD(0.1)

    def replica(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True) ** 2)
        variables = model.trainable_variables
        sgd.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    inner = tf.function(replica) if way == "inner" else replica

    def step(x):
        losses = strategy.run(inner, args=(x,))
        return strategy.reduce("SUM", losses, axis=None)

    if way != "eager":
        step = tf.function(step)
    data = tf.data.Dataset.from_tensor_slices(tf.random.normal((64, 8))).batch(8).repeat()
    batches = iter(strategy.experimental_distribute_dataset(data))

    def differ():
        kernel = model.trainable_variables[0]
        kernel = kernel if hasattr(kernel, "values") else kernel.value  # Keras 3 wraps it
        first, second = (one.numpy() for one in kernel.values)
        return bool(abs(first - second).max() > 1e-6)

    def collectives():
        found = []
        for graph in (one.graph for one in step._list_all_concrete_functions()):
            definition = graph.as_graph_def()
            nodes = [n for f in definition.library.function for n in f.node_def]
            nodes += definition.node
            found.append(sum(n.op.startswith("CollectiveReduce") for n in nodes))
        return found

    told = {"before": exchange.off()}
    step(next(batches))
    told["bytes"] = sum(one.bytes for one in exchange.sums())
    told["with"] = differ()
    told["off"] = exchange.off()
    step(next(batches))
    told["without"] = differ()
    exchange.on()
    if way != "eager":
        traces = step.experimental_get_tracing_count()
        step(next(batches))
        told["traced again"] = step.experimental_get_tracing_count() - traces
        told["collectives"] = collectives()
    print(json.dumps(told))
"""


@pytest.mark.script
@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "operations"),
    [
        ("function", "collective"),
        ("inner", "collective"),
        ("function", "one"),
        ("eager", "collective"),
    ],
)
def test_replicas_go_their_own_ways_while_the_exchange_is_off(tmp_path, way, operations):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path), way, operations],
        env=patient(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["before"] == NO_EXCHANGE
    assert told["bytes"] == 4 * (8 * 4 + 4 + 2 * 4)  # kernel, bias, scale and shift
    assert told["off"] == ""
    assert (told["with"], told["without"]) == (False, True)
    if way == "eager":
        return
    assert told["traced again"] == 0
    if operations == "collective":
        *usual, ours = told["collectives"]
        assert min(usual) > 0
        assert ours == 0
