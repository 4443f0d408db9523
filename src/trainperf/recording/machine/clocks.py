"""The reasons for a lower clock that a GPU may give, by what they mean."""

from __future__ import annotations

POWER_CAP = "power cap"
APPLICATION_CLOCKS = "application clocks"

HARMFUL = frozenset(
    {
        "hardware slowdown",
        "software thermal slowdown",
        "hardware thermal slowdown",
        "power brake",
    }
)
"""Reasons that mean something is wrong: heat, or a power supply that gives out.

The power cap is not among them: a GPU that works as hard as its board permits reports
it. Application clocks and sync boost are somebody's choice.
"""
