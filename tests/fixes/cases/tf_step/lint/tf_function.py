"""The cases of `tf_function`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = model(x)
            opt.apply_gradients(zip(tape.gradient(loss, v), v))
        for x in ds:
            step(x)
        """,
    """
        import tensorflow as tf
        def step(x):
            with tf.GradientTape() as tape:
                loss = model(x)
            opt.apply_gradients(zip(tape.gradient(loss, v), v))
        step = tf.function(step)
        for x in ds:
            step(x)
        """,
    """
        import keras
        import tensorflow as tf
        class Net(keras.Model):
            def train_step(self, x):
                with tf.GradientTape() as tape:
                    loss = self(x)
                self.optimizer.apply_gradients(zip(tape.gradient(loss, v), v))
        """,
    """
        import tensorflow as tf
        def step(x):
            with tf.GradientTape() as tape:
                loss = model(x)
            opt.apply_gradients(zip(tape.gradient(loss, v), v))
        @tf.function
        def run(x):
            strategy.run(step, args=(x,))
        for x in ds:
            run(x)
        """,
    """
        import tensorflow as tf
        for i in range(9):
            with tf.GradientTape() as tape:
                y = f(x)
            print(tape.gradient(y, x))
        """,
)

fires = (
    """
        import tensorflow as tf
        for x in ds:
            with tf.GradientTape() as tape:
                loss = model(x)
            opt.apply_gradients(zip(tape.gradient(loss, v), v))
        """,
    """
        import tensorflow as tf
        def step(x):
            with tf.GradientTape() as tape:
                loss = model(x)
            opt.apply_gradients(zip(tape.gradient(loss, v), v))
        def main():
            for x in ds:
                step(x)
        """,
    """
        import tensorflow as tf
        strategy = tf.distribute.MirroredStrategy()
        def step(x):
            with tf.GradientTape() as tape:
                loss = model(x)
            opt.apply_gradients(zip(tape.gradient(loss, v), v))
        def distributed(x):
            strategy.run(step, args=(x,))
        for x in ds:
            distributed(x)
        """,
)
