"""Order findings, and say in one sentence what they amount to. Pure."""

from __future__ import annotations

from trainperf.verdict.order import after_trials, ranked
from trainperf.verdict.verdict import spinning, verdict, verdict_after

__all__ = ["after_trials", "ranked", "spinning", "verdict", "verdict_after"]
