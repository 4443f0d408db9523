"""Whether a script trains as fast as its baseline says: for every change, in CI.

`running` makes the runs, `judging` decides about their times, `answering` says it.
"""
