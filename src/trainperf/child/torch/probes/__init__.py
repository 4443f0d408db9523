"""Variations of a PyTorch step, timed in place."""
