"""The step of Keras and TensorFlow: settings, graphs, callbacks, layers, strategies, epochs."""
