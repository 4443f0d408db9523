"""Which plan a loop follows: its own, one that its ranks agree on, slices of a leg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .budget import Budget
from .loop import Plan

if TYPE_CHECKING:
    from .legs.leg import LegTraining


def plan_of(driver: Any, training: LegTraining, phases: tuple[str, ...]) -> Any:
    """Return the plan of a loop of `training` that can be put through `phases`."""
    plan = _plan(driver, training, phases)
    plan.queues = driver.device.asynchronous
    return plan


def _plan(driver: Any, training: LegTraining, phases: tuple[str, ...]) -> Any:
    settings = driver.process.settings
    if settings.get("leg") is None:
        budget = Budget.of(driver)
        limits = (driver.clock, budget, settings.get("steps"), phases)
        if driver.world is None:
            return Plan(*limits, left=driver.steps_left)
        from .schedule import RankPlan

        return RankPlan(*limits, driver.world.agreement(driver.kind))
    from .legs import leg

    slices = leg.Slices(training, settings["leg"])
    slices.epochs = lambda: driver.epochs_ended
    slices.describe = lambda: leg.describe(driver)
    return slices
