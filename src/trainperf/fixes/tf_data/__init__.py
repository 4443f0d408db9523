"""`tf.data` and other inputs of Keras: stages, caches, generators."""

FRAMEWORK, CATEGORY = "tensorflow", "input"
"""Those of its fixes, which may say another."""
