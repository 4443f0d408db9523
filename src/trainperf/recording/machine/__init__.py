"""The machine that a script runs on: its box, container, instance, storage, clocks."""
