"""Computing in more bits, or in another layout, than is needed."""
