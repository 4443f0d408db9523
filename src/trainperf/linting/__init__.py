"""What can be told from source alone: read, never imported and never run.

`check.py` takes paths to what was seen in them; one rule stands in each file of
`rules/`, named for the fix it speaks of.
"""
