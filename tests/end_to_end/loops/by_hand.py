"""Variables assigned by hand from a tape's gradients, eagerly."""

import tensorflow as tf

w = tf.Variable(tf.random.normal((32, 10)))
b = tf.Variable(tf.zeros((10,)))
dataset = (
    tf.data.Dataset.from_tensor_slices(
        (tf.random.normal((640, 32)), tf.random.uniform((640,), 0, 10, tf.int32))
    )
    .batch(32)
    .repeat()
)

for step, (images, labels) in enumerate(dataset):
    with tf.GradientTape() as tape:
        logits = images @ w + b
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    dw, db = tape.gradient(loss, [w, b])
    w.assign_sub(0.1 * dw)
    b.assign_sub(0.1 * db)
    if step == 20000:
        break
