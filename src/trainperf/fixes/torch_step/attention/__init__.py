"""Attention that is written out: read from its source, and put into one call."""
