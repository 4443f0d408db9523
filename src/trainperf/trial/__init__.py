"""Trials: the fixes tried on the real script, beside the script as it is."""

from trainperf.trial.experiment import Tried, run_once, try_fixes
from trainperf.trial.planning import Freed, Subject

__all__ = ["Freed", "Subject", "Tried", "run_once", "try_fixes"]
