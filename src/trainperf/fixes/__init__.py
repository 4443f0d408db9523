"""The fixes, in a folder for each family: classes that are found by being there.

A fix is a class with a docstring and `look`; its edit is a row, `edit`, or where more is to be
written, `rewrite`, or `environment` for variables. Its id is the name of its class. Adding one
edits nothing else: tests, `trainperf explain` and docs/fixes.md come from the class itself.
What they find is priced in `findings.py`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

from trainperf.fixes.cause import Cause
from trainperf.fixes.rows import SetArgument, SetFlag, SetVariable
from trainperf.model import Category, Equivalence, Evidence, Finding, Probe
from trainperf.model.discover import discovered

if TYPE_CHECKING:
    from trainperf.rewrite import Script

HEADINGS = ("## Why it is slow", "## What changes", "## When not to")
LABELS = dict(zip(("Why slow:", "Changes:", "When not:"), HEADINGS, strict=True))
"""What begins the three paragraphs of every fix's docstring, and the headings they are told by."""


Concern = Literal["step", "own work", "epoch end", "outside", "quota"]
"""A training step; the user's own function in one; what comes between epochs; what is no
training at all; a limit on cores."""


class Fix:
    """One cause of slow training and its repair.

    Subclasses have a docstring whose first line is the repair in the imperative, followed by
    paragraphs that begin with `LABELS`.
    """

    category: ClassVar[Category]
    equivalence: ClassVar[Equivalence] = Equivalence.EXACT
    framework: ClassVar[str] = "tensorflow"
    """That whose scripts it is for, or "any"; "keras" is Keras on any backend."""
    lasting: ClassVar[bool] = True
    """Whether what a step saves now, every later step saves as well."""
    warm_up_epochs: ClassVar[int] = 0
    """Whole epochs that a trial lets pass before the fix has its effect."""
    between_epochs: ClassVar[bool] = False
    """Whether all that it saves lies between epochs: it is tried in slices of whole ones, and
    not at all where the finding's `slices` are no `Epoch`. One that saves in steps as well may have
    an `Epoch` without this."""
    counted: ClassVar[bool] = False
    """Whether its bound rests on what was counted (by the kernel, the driver, samples of the
    stack): noise of the times, which the cause itself may make, does not hide it."""
    usual: ClassVar[float] = 1.1
    """The speed-up that it gave where it helped, in scripts that nobody here wrote: the order in
    which fixes are tried of which nothing was measured."""
    rarely_all: ClassVar[bool] = False
    """Whether its bound is all of something that it saves a part of: `usual` orders it too."""
    concerns: ClassVar[Concern] = "step"
    """The part of the step that its cause takes its time from: verdict and order go by it."""
    compiles: ClassVar[bool] = False
    """Whether a trial of it compiles, which may take minutes: no limit but the budget holds."""
    ahead: ClassVar[bool] = False
    """Whether it has batches made ahead of the step: there are none where the input is opened anew
    for each, and that is then what is to be mended."""
    edit: ClassVar[SetArgument | SetFlag | SetVariable | None] = None
    """Its edit, where that is a setting; `rewrite` and `environment` are written by others."""
    by_hand: ClassVar[str] = ""
    """What else may be done about its cause, where its edit was tried and nothing is faster."""
    without_edit: ClassVar[str] = "what is to be changed is not in the source"
    """Why no edit can be written, of a fix that neither rewrites source nor sets variables."""
    in_libraries: ClassVar[Mapping[str, str]] = {}
    """Where its edit goes in the loop of a library, by the library, if no setting makes it."""
    try_before: ClassVar[tuple[str, ...]] = ()
    """Fixes that stand before this one where they have an edit: they cost a line, this new code;
    or they mend the cause, and this what it does."""

    pays_with: ClassVar[tuple[str, ...]] = ()
    """Fixes on top of which it may give something where it gives nothing alone: it is tried so."""

    probed_by: ClassVar[str] = ""
    """The probe whose step is the one that its edit makes, "" if none is. What is found of an
    update alone, or of steps whose Python is not timed, is none: it limits the gain only."""

    def __init_subclass__(cls) -> None:
        """Take framework, category and equivalence of the family where the fix says no other."""
        family = vars(sys.modules.get(cls.__module__.rpartition(".")[0], object))
        for name in ("framework", "category", "equivalence"):
            if name not in vars(cls) and name.upper() in family:
                setattr(cls, name, family[name.upper()])

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether a probe, where it gained nothing, says so of the repair of `finding`.

        It must have run what this edit makes, in the same precision, and all that it could gain
        by. May raise `NotMeasured`: not known.
        """
        return True

    def look(self, evidence: Evidence) -> Cause | None:
        """Return this cause if `evidence` shows it, or leaves it possible, else None.

        Which of the two it is, and what it is worth, is decided for all fixes alike: what stands
        out of the noise is told, what can be edited and may matter is tried. It is asked several
        times, with times and probes at both ends of their noise. May raise `NotMeasured` by
        reading what was not taken: that means abstain; what only the price needs belongs into a
        function of `Saving`.
        """
        raise NotImplementedError

    def as_written(self, script: Script, finding: Finding) -> Finding:
        """Return the finding after a look at the source, before anything is tried.

        For a fix that has a better edit where the source allows it, one that changes less.
        """
        return finding

    def lasts(self, finding: Finding) -> bool:
        """Whether what a step saves now by the repair of `finding`, every later step saves too."""
        return self.lasting

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Make the repair in `script` at the sites of `finding`."""
        if not isinstance(self.edit, SetArgument | SetFlag):
            raise NotImplementedError
        self.edit.make(script, finding)

    def clashes(self, finding: Finding, other: Finding) -> str:
        """Return why the repair must not be made together with that of `other`; '' if it may."""
        return ""

    def write(self, script: Script, finding: Finding) -> None:
        """Make the repair: by the setting of a library whose loop it is, else by `rewrite`."""
        from trainperf.fixes.common.trainers import write  # lint asks fixes and writes nothing

        write(script, finding, self.rewrite)

    def environment(self, finding: Finding) -> dict[str, str]:
        """Return the environment variables that the repair sets for the command."""
        return self.edit.environment(finding) if isinstance(self.edit, SetVariable) else {}

    @property
    def id(self) -> str:
        """The name of its class, in the way of a file's."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(type(self)) or "").partition("\n")[0]

    @property
    def documentation(self) -> str:
        """The docstring as Markdown, its labels as headings."""
        text = inspect.getdoc(type(self)) or ""
        for label, heading in LABELS.items():
            text = re.sub(rf"\n+{label}\s+", f"\n\n{heading}\n", text)
        return text

    @property
    def rewrites(self) -> bool:
        """Whether the fix can edit source: by a row, or a `rewrite` of its own."""
        return isinstance(self.edit, SetArgument | SetFlag) or type(self).rewrite is not Fix.rewrite

    @property
    def sets_environment(self) -> bool:
        """Whether the fix sets variables: by a row, or an `environment` of its own."""
        own = type(self).environment is not Fix.environment
        return own or isinstance(self.edit, SetVariable)

    def found(self, cause: Cause, bound: float | None, basis: str) -> Finding:
        """Return a cause of this fix as a finding, with its price.

        It is rewritable where the fix edits source and all places are exact, and where
        it sets environment variables, unless the cause says otherwise.
        """
        exact = bool(cause.where) and all(site.exact for site in cause.where)
        patched = (self.rewrites and exact) or self.sets_environment
        return Finding(
            id=self.id,
            category=cause.category or self.category,
            title=cause.title,
            text=cause.text,
            bound=bound,
            bound_basis=basis,
            equivalence=cause.equivalence or self.equivalence,
            where=cause.where,
            advice=cause.advice or self.summary,
            snippet=cause.snippet,
            rewritable=patched if cause.rewritable is None else cause.rewritable,
            data=cause.data,
            own=cause.own,
            waits=cause.waits,
            slices=cause.slices,
            variants=cause.variants,
            samples_per_step=cause.samples_per_step,
            in_place=cause.in_place,
        )


@cache
def all_fixes() -> tuple[Fix, ...]:
    """Return one instance of every fix, in order of their ids."""
    return tuple(sorted(discovered(__name__, __path__, Fix), key=lambda fix: fix.id))


@cache
def by_id() -> Mapping[str, Fix]:
    """Return every fix by its id."""
    return MappingProxyType({fix.id: fix for fix in all_fixes()})


def concern(finding: Finding) -> Concern:
    """Return the part of the step that a cause takes; "step" for one of another version."""
    fix = by_id().get(finding.id)
    return "step" if fix is None else fix.concerns
