"""What is recorded of a loop once its blocks are done, or once it ended before that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .budget import Budget

if TYPE_CHECKING:
    from .driver import Driver

USUAL_S = 10.0
"""What the stages or the probes take of a script that is not slow."""


def describe(driver: Driver) -> None:
    """Record what the loop is: all blocks are done."""
    driver.observer.reads.close(driver)
    driver.record.write("facts", **_description(driver))


def measure(driver: Driver, extras: Iterable[tuple[str, Callable[[float], None]]]) -> None:
    """Take the extra measurements, as far as there is time; a fault ends only its own."""
    budget = Budget.of(driver)
    deadline = budget.extra_by(driver.clock())
    for name, extra in extras:
        if driver.clock() > deadline and name != "facts":  # they cost little, and all need them
            reason = budget.lacking(USUAL_S, driver.clock())
            driver.record.write("missing", what=name, reason=reason)
            continue
        driver.record.write("phase", p=name, b=0)
        driver.record.flush()
        driver.observer.off = True
        try:
            extra(deadline)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:500]
            driver.record.write("missing", what=name, reason=reason)
        finally:
            driver.observer.off = False
    driver.record.write("measured")


def describe_early(driver: Driver) -> None:
    """The loop ended by itself before all was measured: record what is cheap to know."""
    driver.observer.reads.close(driver)
    driver.observer.off = True
    try:
        driver.record.write("early", **_description(driver))
        for name, extra in driver.extras:
            if name == "facts":
                extra(driver.clock())
    except Exception as error:
        driver.observer.failed("describing a loop that is over", error)
    finally:
        driver.observer.off = False


def _description(driver: Driver) -> dict[str, Any]:
    try:
        return driver.describe()
    except Exception as error:
        driver.observer.failed("describing the loop", error)
        return {}
