"""A GAN: two optimizers applied in each eager step, which is one step."""

import tensorflow as tf

make = tf.keras.Sequential(
    [tf.keras.Input((8,)), tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(16)]
)
judge = tf.keras.Sequential(
    [tf.keras.Input((16,)), tf.keras.layers.Dense(32, activation="relu"), tf.keras.layers.Dense(1)]
)
one, two = tf.keras.optimizers.Adam(1e-4), tf.keras.optimizers.Adam(1e-4)
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
dataset = tf.data.Dataset.from_tensor_slices(tf.random.normal((640, 16))).batch(32)


def train_step(real):
    noise = tf.random.normal((len(real), 8))
    with tf.GradientTape() as make_tape, tf.GradientTape() as judge_tape:
        fake = make(noise, training=True)
        said_real, said_fake = judge(real, training=True), judge(fake, training=True)
        make_loss = bce(tf.ones_like(said_fake), said_fake)
        judge_loss = bce(tf.ones_like(said_real), said_real) + bce(
            tf.zeros_like(said_fake), said_fake
        )
    one.apply_gradients(
        zip(make_tape.gradient(make_loss, make.trainable_variables), make.trainable_variables)
    )
    two.apply_gradients(
        zip(judge_tape.gradient(judge_loss, judge.trainable_variables), judge.trainable_variables)
    )


for epoch in range(1000):
    for real in dataset:
        train_step(real)
