"""`DistributedDataParallel` and its forerunner: buckets, unused parameters, data of the ranks."""
