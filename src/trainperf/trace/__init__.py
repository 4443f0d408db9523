"""`--trace`: what a tracer left of a few steps, and what was recorded, as one Chrome trace."""
