"""Timing apart from the loop: a step against its variation, a matrix product, memory to spare."""
