"""The card itself: clocks, throttling, sharing, ECC, MIG, its link."""

from trainperf.model import Equivalence

FRAMEWORK, CATEGORY = "any", "environment"
EQUIVALENCE = Equivalence.ENVIRONMENT
"""Those of its fixes, which may say another."""
