"""A leg of a trial, in the process of which a fake loop runs."""

from __future__ import annotations

from typing import Any

import pytest

from trainperf.child.timing.losses import Losses


@pytest.fixture
def leg(watcher: Any, loops: Any) -> Losses:
    """The losses that the module's own `watcher` and `loops` show of a leg without slices."""
    watcher.settings["leg"] = {"warm_up_steps": 4}
    watcher.losses = loops.losses = losses = Losses(watcher)
    watcher.settings["leg"] = None
    return losses
