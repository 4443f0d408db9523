"""`DistributedDataParallel` and its forerunner: buckets, unused parameters, data of the ranks."""

FRAMEWORK, CATEGORY = "torch", "sync"
"""Those of its fixes, which may say another."""
