"""`DataLoader`: workers, what an item costs, what is handed over."""
