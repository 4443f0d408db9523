"""Reading source: never imported and never run.

`check.py` takes paths to what was seen in them; `rules` says what is looked for, fix by fix.
"""
