"""`DataLoader`: workers, what an item costs, what is handed over."""

FRAMEWORK, CATEGORY = "torch", "input"
"""Those of its fixes, which may say another."""
