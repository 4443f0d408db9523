"""A step of PyTorch taken apart, call by call."""
