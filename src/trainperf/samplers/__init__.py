"""Samplers beside the user's process: its CPU, memory and IO, and the GPUs.

Everything here runs in the parent, outside the user's interpreter, and costs the
script no more than the kernel and the driver need to answer.
"""
