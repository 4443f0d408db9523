"""What source alone may say about this family: a rule for each fix, in a file of its name."""
