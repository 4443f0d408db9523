"""Models called in Python loops that do not train: evidence of the calls, and their edits."""
