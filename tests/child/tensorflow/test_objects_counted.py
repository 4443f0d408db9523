"""TensorFlow's graphs and variables, counted."""

import tensorflow as tf

from trainperf.child.tensorflow.facts import held


def test_what_is_made_and_kept_is_counted():
    before, kept = held(), []
    for step in range(3):
        function = tf.function(lambda x, step=step: x * step)
        function(tf.constant(1.0))
        kept += [function, tf.Variable(1.0)]
    more = {name: many - before[name] for name, many in held().items()}
    assert more["traced graphs"] == more["variables"] == 3
    assert more["operations"] >= 3
