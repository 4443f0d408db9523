"""The step of Keras and TensorFlow: graphs, retracing, callbacks, recurrent kernels."""
