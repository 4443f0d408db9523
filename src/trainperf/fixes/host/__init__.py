"""Cores, memory and threads of the host, and what its instance type has."""
