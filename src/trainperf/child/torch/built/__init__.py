"""Models, optimizers, flags and devices of a PyTorch process."""
