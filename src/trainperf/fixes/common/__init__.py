"""Shared by families of fixes: cases, bodies, words, the pipeline."""
