"""A recurrent network under MirroredStrategy in a custom loop, on two logical CPUs.

The devices stand in for two GPUs. Gradients are summed on one of them: the default
exchange of MirroredStrategy does not work between logical CPUs.
"""

import tensorflow as tf

PER_REPLICA, STEPS, FEATURES, CLASSES, EPOCHS = 64, 10, 5, 2, 200

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(
    ["/cpu:0", "/cpu:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
)
batch_size = PER_REPLICA * strategy.num_replicas_in_sync

sequences = tf.random.normal((2000, STEPS, FEATURES))
labels = tf.random.uniform((2000,), maxval=CLASSES, dtype=tf.int32)
dataset = tf.data.Dataset.from_tensor_slices((sequences, labels)).batch(batch_size).shuffle(1000)
distributed = strategy.experimental_distribute_dataset(dataset)

with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((STEPS, FEATURES)),
            tf.keras.layers.SimpleRNN(32),
            tf.keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(1e-3)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(reduction="none")


def train_step(inputs, wanted):
    """Update the weights of one replica."""
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(loss_of(wanted, model(inputs)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def distributed_train_step(inputs, wanted):
    """Update all replicas and return the loss of the whole batch."""
    losses = strategy.run(train_step, args=(inputs, wanted))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


for epoch in range(EPOCHS):
    total, count = 0.0, 0
    for inputs, wanted in distributed:
        total += distributed_train_step(inputs, wanted)
        count += 1
    if epoch % 20 == 0:
        print(f"epoch {epoch + 1}: mean loss {float(total) / count:.4f}")
