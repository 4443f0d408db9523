"""Inside the user's process: standard library only at start, and never an exception.

Loaded by `bootstrap/sitecustomize.py` under the name `_trainperf_child`, by file,
because the user's interpreter need not be able to import trainperf.
"""
