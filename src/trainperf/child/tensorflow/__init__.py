"""TensorFlow: loops, batches, stages of `tf.data`, probes."""
