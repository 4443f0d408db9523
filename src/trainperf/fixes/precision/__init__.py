"""What is computed in more bits, or in another layout, than it needs."""
