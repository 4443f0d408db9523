"""The whole training: its ledger, and plain runs of the script that confirm the patch."""

from trainperf.whole_training.confirming import confirm
from trainperf.whole_training.ledger import ledger, with_changes

__all__ = ["confirm", "ledger", "with_changes"]
