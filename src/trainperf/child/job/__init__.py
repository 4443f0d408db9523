"""Which rank of its job this process is, and how the ranks speak with each other."""
