"""The variables that the legs of a script have so that they are alike; its user has them not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainperf.errors import NotMeasured
from trainperf.model import Evidence
from trainperf.run.spawn import GPU_MEMORY

PASSIVE = {"OMP_WAIT_POLICY": "passive"}
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables by which a user says how threads of OpenMP wait."""
NEIGHBOURS = 0.3
"""Cores that others take from which they are in the way; what a report tells of as well."""
KEPT_WAITING = 0.05
"""Share of their time for which threads must have waited for a core. A quiet machine: 1 to 2 %."""

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Has `malloc` ask for huge pages (`madvise`): glibc 2.35, August 2021, and later.

Two processes of one and the same script can differ by half where their tensors lie on pages of
4 KiB: which pages of memory the kernel had at hand decides. A convolution in bfloat16 on two
virtual cores took 42 ms in nine of eighteen processes and 28 ms in the others; in huge pages it
took the shorter time in all. A trial must not tell such a difference as that of a change.
"""
OFFERED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@dataclass(frozen=True)
class Environment:
    """What legs have beside what their user gives them; whether their threads still `spin`."""

    variables: Mapping[str, str]
    passive: bool
    huge_pages: bool
    spin: bool


def environment(
    evidence: Evidence, given: Mapping[str, str], busy: float | None, repeated: bool
) -> Environment:
    """The environment of the legs of a script, which itself has the `given` one.

    Neighbours take so many `busy` cores now, None if not known. Huge pages may flatter a change (a
    small BERT's bfloat16 gave 1.44x as it is run, and up to 1.9x on them): they are for legs whose
    gain is `repeated` without them.
    """
    passive, huge = spins(evidence, given, busy), huge_pages(evidence, given) if repeated else {}
    variables = {**(PASSIVE if passive else {}), **huge}
    return Environment(variables, passive, bool(huge), may_spin(evidence, given) and not passive)


def may_spin(evidence: Evidence, given: Mapping[str, str]) -> bool:
    """Whether the script computes with several threads of OpenMP, and says not how they wait."""
    if evidence.framework.name != "torch" or evidence.device.kind != "CPU":
        return False
    return not any(map(given.get, WAITING)) and given.get("OMP_NUM_THREADS") != "1"


def spins(evidence: Evidence, given: Mapping[str, str], busy: float | None) -> bool:
    """Whether threads of OpenMP that wait for one another keep neighbours from ending their turn.

    They spin by default; beside busy neighbours the one they wait for does not run meanwhile.
    nanoGPT on two cores, one of them shared: 411 ms a step, 52 ms where they slept, and no two
    steps alike. Nothing can be compared so.
    """
    if not may_spin(evidence, given):
        return False
    if busy is not None and busy > NEIGHBOURS:
        return True
    try:
        use = evidence.phase("real")
    except NotMeasured:
        return False
    return (use.others_cores or 0.0) > NEIGHBOURS and (use.waited or 0.0) > KEPT_WAITING


def grows(evidence: Evidence, given: Mapping[str, str]) -> bool:
    """Whether TensorFlow is told to take what it needs of a GPU, which the user has not done."""
    told = given.keys() & GPU_MEMORY.keys()
    return evidence.framework.name == "tensorflow" and evidence.device.kind != "CPU" and not told


def huge_pages(
    evidence: Evidence, given: Mapping[str, str], offered: Path = OFFERED
) -> dict[str, str]:
    """The variables that put a leg's tensors on huge pages; none where that is no help.

    Not on a GPU, nor where the user has set `GLIBC_TUNABLES`, nor where the kernel (`offered`) has
    none to give.
    """
    if evidence.device.kind != "CPU" or given.get("GLIBC_TUNABLES"):
        return {}
    with suppress(OSError):
        if "[never]" not in offered.read_text(encoding="ascii"):
            return dict(HUGE_PAGES)
    return {}
