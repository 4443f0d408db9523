"""Files and objects that are read: volumes, S3, SageMaker's input."""

from trainperf.model import Equivalence

FRAMEWORK, CATEGORY = "any", "storage"
EQUIVALENCE = Equivalence.ENVIRONMENT
"""Those of its fixes, which may say another."""
