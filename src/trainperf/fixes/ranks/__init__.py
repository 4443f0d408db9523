"""Several ranks: stragglers, threads, writing, NCCL, whether they pay at all."""

FRAMEWORK, CATEGORY = "any", "sync"
"""Those of its fixes, which may say another."""
