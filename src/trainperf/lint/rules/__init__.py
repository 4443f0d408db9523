"""Rules, a file for each subject; the id of a rule is its class in snake case."""
