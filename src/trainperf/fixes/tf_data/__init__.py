"""`tf.data` and other inputs of Keras: stages, caches, generators."""
