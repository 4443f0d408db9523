"""A `Diagnosis` as the sections of its report in their order, those without content left out."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from trainperf.model import Diagnosis
from trainperf.model.discover import modules
from trainperf.report import sections as folder
from trainperf.report.document import Page, Section

PROVEN = ("partial", "verdict", "output", "proofs", "notes", "next")
"""The sections of a short report on changes that were to be proved."""


@cache
def sections() -> tuple[Section, ...]:
    """The sections in their order: those that the modules of their folder name in `SECTIONS`."""
    found = (import_module(name) for name in modules(folder.__name__, folder.__path__))
    every = (section for module in found for section in module.SECTIONS)
    return tuple(sorted(every, key=lambda section: section.place))


def report(
    diagnosis: Diagnosis, *, full: bool, saved: str = "", patch_file: str = ""
) -> tuple[Page, ...]:
    """Return the `full` report, or what bears on the verdict and the changes.

    All where no step was timed. `saved` is the name `trainperf show` finds the run by,
    `patch_file` the file the patch was written to; the commands that need them are named only if
    they are given.
    """
    full, written = full or diagnosis.step_s is None, []
    for section in sections():
        short = section.short if isinstance(section.short, bool) else section.short(diagnosis)
        if not (full or (section.name in PROVEN if diagnosis.proofs else short)):
            continue
        page = Page(section.name, full, saved, patch_file)
        section.write(diagnosis, page)
        if page.blocks:
            written.append(page)
    return tuple(written)
