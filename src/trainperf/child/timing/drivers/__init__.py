"""Drivers: what leads a loop through its phases, by the kind of the loop."""
