"""Gradients exchanged between the ranks of a PyTorch job."""
