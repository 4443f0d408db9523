"""Known causes, planted and diagnosed on this machine: `trainperf doctor --self-test`."""

from trainperf.self_test.experiments import self_test
from trainperf.self_test.judging import Figure, SelfTest

__all__ = ["Figure", "SelfTest", "self_test"]
