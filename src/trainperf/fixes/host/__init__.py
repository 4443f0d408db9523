"""Cores, memory, threads and GPUs of the host, and what its instance type has."""

from trainperf.model import Equivalence

FRAMEWORK, CATEGORY = "any", "environment"
EQUIVALENCE = Equivalence.ENVIRONMENT
"""Those of its fixes, which may say another."""
