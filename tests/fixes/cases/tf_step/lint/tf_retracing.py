"""The cases of `tf_retracing`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        @tf.function
        def step(x, i):
            return x * i
        for i in tf.range(9):
            step(x, i)
        """,
    """
        import tensorflow as tf
        @tf.function
        def step(x, i):
            return x * i
        for i in range(9):
            step(x, tf.constant(i))
        """,
    """
        import tensorflow as tf
        @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
        def step(i):
            return i
        for i in range(9):
            step(i)
        """,
    """
        import tensorflow as tf
        for model in models:
            step = tf.function(model.step)
            for x in ds:
                step(x)
        """,
    """
        import tensorflow as tf
        @tf.function
        def step(x):
            for i in range(3):
                x = other(x, i)
            return x
        """,
)

fires = (
    """
        import tensorflow as tf
        @tf.function
        def step(x, i):
            return x * i
        for i in range(9):
            step(x, i)
        """,
    """
        import tensorflow as tf
        @tf.function(jit_compile=True)
        def step(x, i):
            return x
        def main():
            for i, x in enumerate(ds):
                step(x, i=i)
        """,
    """
        import tensorflow as tf
        @tf.function
        def step(x, w):
            return x * w
        n = 0
        for x in ds:
            step(x, min(1.0, n / 9))
            n += 1
        """,
    """
        import tensorflow as tf
        for x in ds:
            step = tf.function(train)
            step(x)
        """,
)
