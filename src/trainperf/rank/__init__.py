"""Order findings, and say in one sentence what they amount to. Pure."""

from __future__ import annotations

from trainperf.rank.culprit import input_culprit
from trainperf.rank.order import after_trials, practices, ranked
from trainperf.rank.verdict import verdict

__all__ = ["after_trials", "input_culprit", "practices", "ranked", "verdict"]
