"""The record of a loop once its blocks are done, or once it ended before that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import cycles, length, other_loops
from .budget import Budget

if TYPE_CHECKING:
    from .driven_loop import DrivenLoop, Extra

PROBES = "probes"
ALONE = "not taken where several processes train together"
USUAL_S = 10.0
"""Seconds of the stages, or of the probes, of a script that is not slow."""


def describe(driver: DrivenLoop) -> None:
    """Record what the loop is: all blocks are done."""
    driver.reads.close(_source(driver))
    driver.record.write("facts", **_description(driver))
    length.record(driver)


def extras(driver: DrivenLoop) -> list[Extra]:
    """The extra measurements in order; several ranks leave out what they cannot do in step."""
    found = [*driver.exchange_extras(), *driver.extras, *driver.last_extras()]
    if driver.world is None or driver.probes_in_step:
        return found
    lacks(driver, PROBES, ALONE)
    return [one for one in found if one[0] != PROBES]


def measure(driver: DrivenLoop, extras: Iterable[Extra]) -> None:
    """Take the extra measurements, as far as there is time; a fault ends only its own."""
    budget = Budget.of(driver)
    deadline = budget.extra_by(driver.clock())
    for name, extra in extras:
        if driver.clock() > deadline and name != "facts":  # they cost little, and all need them
            lacks(driver, name, budget.lacking(USUAL_S, driver.clock()))
            continue
        driver.record.write("phase", p=name, b=0)
        driver.record.flush()
        driver.process.off = True
        try:
            extra(deadline)
        except Exception as error:
            lacks(driver, name, f"{type(error).__name__}: {error}"[:500])
        finally:
            driver.process.off = False
    driver.record.write("measured")


def lacks(driver: DrivenLoop, name: str, reason: str) -> None:
    """Record why an extra measurement was not taken; of the probes, why each of them was not."""
    names: tuple[str, ...] = ()
    try:
        names = driver.probe_names() if name == PROBES else ()
    except Exception as error:
        driver.process.failed("naming the probes", error)
    for what in names or (name,):
        driver.record.write("missing", what=what, reason=reason)


def around(driver: DrivenLoop) -> cycles.Cycles | None:
    """Record the other loops in the source; return the turns around this one, if it has any."""
    try:
        for one in other_loops.other_loops():
            driver.record.write("other", **one)
        return cycles.wanted(driver)
    except Exception as error:
        driver.process.failed("what stands around the loop", error)
        return None


def describe_early(driver: DrivenLoop) -> None:
    """The loop ended by itself before all was measured: record what is cheap to know."""
    driver.reads.close(_source(driver))
    driver.process.off = True
    try:
        driver.record.write("early", **_description(driver))
        for name, extra in driver.extras:
            if name == "facts":
                extra(driver.clock())
    except Exception as error:
        driver.process.failed("describing a loop that is over", error)
    finally:
        driver.process.off = False


def _source(driver: DrivenLoop) -> Any:
    try:
        return driver.source()
    except Exception as error:
        driver.process.failed("the dataset of the loop", error)
        return None


def _description(driver: DrivenLoop) -> dict[str, Any]:
    try:
        return driver.describe()
    except Exception as error:
        driver.process.failed("describing the loop", error)
        return {}
