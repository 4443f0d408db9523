"""Anybody's change proved by experiment: the script as it is, itself as control, and the change."""

from trainperf.proof.answers import exit_status
from trainperf.proof.experiment import compare_with, try_changes

__all__ = ["compare_with", "exit_status", "try_changes"]
