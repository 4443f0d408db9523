"""What is known before anything is read out of it: a run to make, and the recording of one.

The machine, the samples and the cells of a notebook belong to it. It stands apart from `model`,
whose many values nobody needs before the script was started.
"""
