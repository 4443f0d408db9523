"""The whole training: its ledger, and plain runs of the script that confirm what is kept."""

from trainperf.whole_training.confirming import Found, by_runs, confirm, reserved_s
from trainperf.whole_training.ledger import ledger, with_changes

__all__ = ["Found", "by_runs", "confirm", "ledger", "reserved_s", "with_changes"]
