"""Rules of this family for source alone: one for each fix, in a file of its name."""
