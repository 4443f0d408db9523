"""Order findings, and say in one sentence what they amount to. Pure."""

from __future__ import annotations

from trainperf.verdict.order import after_trials, ranked
from trainperf.verdict.verdict import held_by_spinning, spinning, verdict, verdict_after

__all__ = [
    "after_trials",
    "held_by_spinning",
    "ranked",
    "spinning",
    "verdict",
    "verdict_after",
]
