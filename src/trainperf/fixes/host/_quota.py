"""How often a container's CPU quota was used up, for the fixes and verdicts that ask."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.model import Evidence

OFTEN = 0.05
"""Share of the quota's periods in which it must have been used up to matter; our choice."""


def throttled_share(evidence: Evidence) -> float:
    """The share of periods used up while it trained, else in the whole run.

    Raises `NotMeasured` where the kernel tells neither.
    """
    try:
        training = evidence.phase("real").throttled_share
    except NotMeasured:
        training = None
    whole = None if evidence.container is None else evidence.container.throttled_share
    share = whole if training is None else training
    if share is None:
        raise NotMeasured("the kernel does not tell how often the quota was used up")
    return share
