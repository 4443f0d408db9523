"""Variables assigned by hand inside a tf.function."""

import tensorflow as tf

w = tf.Variable(tf.random.normal((32, 10)))
dataset = tf.data.Dataset.from_tensor_slices(
    (tf.random.normal((640, 32)), tf.random.uniform((640,), 0, 10, tf.int32))
).batch(32)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, images @ w))
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss


def main():
    for _ in range(2000):
        for images, labels in dataset:
            step(images, labels)


if __name__ == "__main__":
    main()
