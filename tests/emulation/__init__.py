"""A device that runs later than the host, without a GPU: for tests of what is timed on one."""
