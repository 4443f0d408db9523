"""Several ranks: stragglers, threads, writing, NCCL, whether they pay at all."""
