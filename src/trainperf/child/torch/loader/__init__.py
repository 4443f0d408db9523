"""`DataLoader`: its settings, stages, workers, and what passes between them."""
