"""A soak: one long run of real steps, and what the user's code holds more and more of in it."""
