"""Keras: epochs of `fit`, callbacks, `train_on_batch`."""
