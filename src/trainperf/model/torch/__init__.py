"""Facts of a loop of PyTorch: its loader, its step, what is compiled."""
