"""Whether the parts of this machine fit each other: `trainperf doctor`."""
