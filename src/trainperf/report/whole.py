"""A `Diagnosis` as a `Document`: its sections in their order, those without content left out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from trainperf.model import Diagnosis
from trainperf.model.discover import modules
from trainperf.report import sections as folder
from trainperf.report.document import Document, Page, Section, Written

PROVEN = ("partial", "verdict", "output", "proofs", "stack", "notes", "next")
"""The sections of a short report on changes that were to be proved."""


@cache
def sections() -> tuple[Section, ...]:
    """The sections in their order: those that the modules of their folder name in `SECTIONS`."""
    found = (import_module(name) for name in modules(folder.__name__, folder.__path__))
    return tuple(sorted((one for module in found for one in module.SECTIONS), key=_place))


def _place(section: Section) -> int:
    return section.place


def document(diagnosis: Diagnosis, *, saved: str = "", patch_file: str = "") -> Document:
    """Return the whole report.

    `saved` is the name `trainperf show` finds the run by, `patch_file` the file the patch was
    written to; the commands that need them are named only if they are given.
    """
    written = (one.written(diagnosis, Page([], saved, patch_file)) for one in sections())
    return Document(tuple(one for one in written if one.blocks))


def short(diagnosis: Diagnosis, *, saved: str = "", patch_file: str = "") -> Document:
    """Return what bears on the verdict and on the changes, all where no step was timed."""
    if diagnosis.step_s is None:
        return document(diagnosis, saved=saved, patch_file=patch_file)
    bearing = _bearing(diagnosis)
    written = (one.written(diagnosis, Page([], saved, patch_file), short=True) for one in bearing)
    return Document(tuple(one for one in written if one.blocks))


def _bearing(diagnosis: Diagnosis) -> Iterator[Section]:
    for section in sections():
        if diagnosis.proofs:
            if section.name in PROVEN:
                yield section
        elif section.short is not None and section.when(diagnosis):
            yield section


def written(name: str, diagnosis: Diagnosis, *, short: bool = False) -> Written:
    """Return one section by itself."""
    section = next(section for section in sections() if section.name == name)
    return section.written(diagnosis, Page(), short=short)
