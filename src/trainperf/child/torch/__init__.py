"""PyTorch: loops, batches, and the hooks that see them."""
