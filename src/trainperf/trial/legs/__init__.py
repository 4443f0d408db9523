"""Legs: processes of the script, and what they need to run beside each other."""
