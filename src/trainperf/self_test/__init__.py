"""Known causes, planted and diagnosed on this machine: `trainperf doctor --self-test`."""
