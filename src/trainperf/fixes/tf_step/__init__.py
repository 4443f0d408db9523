"""The step of Keras and TensorFlow: settings, graphs, callbacks, layers, strategies, epochs."""

FRAMEWORK, CATEGORY = "tensorflow", "host"
"""Those of its fixes, which may say another."""
