"""MirroredStrategy on two logical CPU devices, a custom loop."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(
    ["/cpu:0", "/cpu:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
)
x = tf.random.normal((1000, 10, 5))
y = tf.random.uniform((1000,), 0, 2, tf.int32)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64).shuffle(1000)
distributed = strategy.experimental_distribute_dataset(dataset)
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((10, 5)),
            tf.keras.layers.SimpleRNN(32),
            tf.keras.layers.Dense(2, activation="softmax"),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(1e-3)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(reduction="none")


@tf.function
def train_step(inputs, labels):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(loss_fn(labels, model(inputs)), global_batch_size=64)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def distributed_train_step(inputs, labels):
    losses = strategy.run(train_step, args=(inputs, labels))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


for epoch in range(200):
    total = 0.0
    for inputs, labels in distributed:
        total += distributed_train_step(inputs, labels)
    print(f"Epoch {epoch}: {float(total):.3f}")
