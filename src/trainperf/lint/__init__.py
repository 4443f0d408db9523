"""Reading source: never imported and never run.

`check.py` takes paths to what was seen in them; a rule stands beside its fix, in the `lint`
folder of the family.
"""
