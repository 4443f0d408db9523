"""Edits of TensorFlow's input: generators, loops that make batches, caches, maps, padding."""
