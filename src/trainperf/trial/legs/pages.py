"""Huge pages for the legs of a script that computes on the CPU, so that they are alike.

Two processes of one and the same script can differ by half where their tensors lie on pages of
4 KiB: which pages of memory the kernel had at hand decides. A convolution in bfloat16 on two
virtual cores took 42 ms in nine of eighteen processes and 28 ms in the others, whatever the
addresses; in huge pages it took the shorter time in all. A trial must not tell such a
difference as that of a change.

A script that has its memory from the kernel anew in each step is another one on huge pages: it
makes a page where it made 512. What a change gives there is not what it gives the user.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trainperf.errors import NotMeasured
from trainperf.model import Evidence

HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Has `malloc` ask for huge pages (`madvise`): glibc 2.35, August 2021, and later."""
OLDEST = (2, 35)
FAULT_S = 0.9e-6
"""What a minor fault takes: a small BERT on two virtual cores made 75,000 fewer of them in each
step on huge pages, and its step took 43 to 70 ms less."""
MOST_FAULTING = 0.05
"""From such a share of the step on huge pages change what is measured: that BERT's bfloat16 gave
1.44x as it is run, and up to 1.9x on huge pages."""
LARGE = 64 * 2**20
"""Bytes that a step has of new pages, from which on no cache holds them, and it makes no difference
which pages they are: plain runs of that BERT lay within 3 % of each other. A convolutional
network that has 28 MB of new pages in a step took 43 to 59 ms, one run and another."""
PAGE = 4096
OFFERED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def huge_pages(
    evidence: Evidence, environment: Mapping[str, str], offered: Path = OFFERED
) -> dict[str, str]:
    """The variables that put a leg's tensors on huge pages; none where that is no help.

    Not on a GPU, whose memory they do not concern, nor where the user has set `GLIBC_TUNABLES`,
    nor where the C library or the kernel (`offered`) has none to give, nor where they would take
    a good part of the step away.
    """
    if evidence.device.kind != "CPU" or environment.get("GLIBC_TUNABLES"):
        return {}
    if is_another(evidence):
        return {}
    return dict(HUGE_PAGES) if available(offered) else {}


def is_another(evidence: Evidence) -> bool:
    """Whether huge pages would make another script of this one: pages are a part of its step."""
    try:
        faults_s, step_s = evidence.phase("real").faults_s or 0.0, evidence.times.real
    except NotMeasured:
        return False
    return FAULT_S * faults_s > MOST_FAULTING and PAGE * faults_s * step_s > LARGE


def available(offered: Path = OFFERED) -> bool:
    """Whether the C library and the kernel give huge pages to whoever asks."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        numbers = tuple(int(part) for part in version.split(".")[:2])
        told = offered.read_text(encoding="ascii")
    except (ValueError, OSError):
        return False
    return name == "glibc" and numbers >= OLDEST and "[never]" not in told
