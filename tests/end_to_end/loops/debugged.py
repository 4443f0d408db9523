"""fit with two debug modes left on, one of them turned off in between."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(1)
tf.config.experimental.enable_op_determinism()
tf.debugging.enable_check_numerics()
tf.debugging.disable_check_numerics()
tf.debugging.enable_check_numerics(stack_height_limit=20)
x, y = tf.random.normal((640, 16)), tf.random.normal((640, 1))
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=32, epochs=1000, verbose=0)
