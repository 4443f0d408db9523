"""The fixes: one file each, in a folder for each family, discovered by being there.

A fix is a class with a docstring, `detect`, and where it can edit source, `rewrite`
or where it sets variables, `environment`.
Its id is the name of its file. Adding one edits nothing else: tests, `trainperf
explain` and docs/fixes.md come from the class itself.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from trainperf.errors import NotMeasured
from trainperf.fixes.cause import PROBE_LEAST, PROBED, UNTRIED, Cause, Unpriced
from trainperf.fixes.common.pipeline import input_at_most
from trainperf.fixes.common.words import SMALLEST_GAIN, worth
from trainperf.fixes.rows import SetArgument, SetFlag, SetVariable
from trainperf.model import (
    Category,
    Equivalence,
    Evidence,
    Finding,
    Missing,
    Probe,
    Ratio,
    Site,
    is_taken,
)
from trainperf.model.discover import discovered
from trainperf.model.outside import MOST_OF_IT
from trainperf.model.timing import WIDE
from trainperf.model.words import share as percent

if TYPE_CHECKING:
    from trainperf.rewrite import Script

HEADINGS = ("## Why it is slow", "## What changes", "## When not to")
"""The headings every fix's docstring has, in this order, after its first line."""


Concern = Literal["step", "own work", "epoch end", "outside", "access", "quota"]
"""A training step; the user's own function in one; what comes between epochs; what is no
training at all; whether the data can be read; a limit on cores."""


class Fix:
    """One cause of slow training and its repair.

    Subclasses have a docstring whose first line is the repair in the imperative,
    followed by the three `HEADINGS`.
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
    not at all where the finding's data has no "epoch" (`steps`, `seconds`, `pause_s`). One that
    saves in steps as well may give an "epoch" without this. Where all that one finding saves
    lies outside the steps, its data says so ("outside": True)."""
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
    without_edit: ClassVar[str] = "what is to be changed is not in the source"
    """Why no edit can be written, of a fix that neither rewrites source nor sets variables."""
    in_libraries: ClassVar[Mapping[str, str]] = {}
    """Where its edit goes in the loop of a library, by the library, if no setting makes it."""
    try_before: ClassVar[tuple[str, ...]] = ()
    """Fixes that stand before this one where they have an edit: they cost a line, this new code."""

    pays_with: ClassVar[tuple[str, ...]] = ()
    """Fixes on top of which it may give something where it gives nothing alone: it is tried so."""

    probed_by: ClassVar[str] = ""
    """The probe whose step is the one that its edit makes, "" if none is. What is found of an
    update alone, or of steps whose Python is not timed, is none: it limits the gain only."""

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

    def detect(self, evidence: Evidence) -> Finding | None:
        """Return the finding if `evidence` shows this cause, else None.

        May raise `NotMeasured` by reading what was not taken: that means abstain.
        """
        raise NotImplementedError

    def possible(self, evidence: Evidence) -> Finding | None:
        """Return the finding to be tried where `detect` found nothing, or None.

        Experiments decide, rules only order: what can be written on this script, and is not
        there already, is tried as long as it could matter, whatever was not probed and
        however noisy the times are. `bound` is what it could give at most, None where nothing
        limits it. The finding is shown only if a trial keeps it, so its text says what is
        there, and no number that was not measured. May raise `NotMeasured`: nothing to try.

        As it stands here: what `detect` finds with the times at the favourable end of their
        noise, else what `untimed` does. A fix whose `detect` needs a probe overrides it.
        """
        try:
            return self.detect(evidence.favourable())
        except NotMeasured:
            found = self.untimed(evidence)
            if found is None:
                raise
            return found

    def untimed(self, evidence: Evidence) -> Finding | None:
        """Return the finding to try where times that `detect` needs were not taken, if any."""
        return None

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
        if type(self).look is Fix.look:
            return type(self).__module__.rpartition(".")[2]
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(type(self)) or "").partition("\n")[0]

    @property
    def documentation(self) -> str:
        """The whole docstring, dedented: Markdown."""
        return inspect.getdoc(type(self)) or ""

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
        """Return a cause of this fix as a finding, with its price."""
        finding = self.finding(
            title=cause.title,
            text=cause.text,
            bound=bound,
            bound_basis=basis,
            where=cause.where,
            advice=cause.advice,
            snippet=cause.snippet,
            data=cause.data,
            equivalence=cause.equivalence,
            rewritable=cause.rewritable,
        )
        return replace(finding, category=cause.category or self.category)

    def finding(
        self,
        *,
        title: str,
        text: str,
        bound: float | None,
        bound_basis: str,
        where: tuple[Site, ...] = (),
        advice: str = "",
        snippet: str = "",
        data: dict[str, Any] | None = None,
        equivalence: Equivalence | None = None,
        rewritable: bool | None = None,
    ) -> Finding:
        """Build a `Finding` of this fix: id, category and equivalence filled in.

        It is rewritable where the fix edits source and all places are exact, and where
        it sets environment variables, unless `rewritable` says otherwise.
        """
        exact = bool(where) and all(site.exact for site in where)
        patched = (self.rewrites and exact) or self.sets_environment
        return Finding(
            id=self.id,
            category=self.category,
            title=title,
            text=text,
            bound=bound,
            bound_basis=bound_basis,
            equivalence=equivalence or self.equivalence,
            where=where,
            advice=advice or self.summary,
            snippet=snippet,
            rewritable=patched if rewritable is None else rewritable,
            data=data or {},
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


def in_the_loop(finding: Finding, evidence: Evidence) -> Ratio | None:
    """Return the speed-up of a step with the repair of `finding`, by the probe that ran it.

    It is of the step without its input, in PyTorch of forward and backward. None where no probe
    decides on the repair, or noise left its interval wide and near to 1.
    """
    fix = by_id().get(finding.id)
    made = None if fix is None else evidence.probes.get(fix.probed_by)
    if fix is None or not isinstance(made, Probe) or made.pairs < FEWEST_PAIRS:
        return None
    if made.vague and made.low <= WIDE and made.high >= 1 / WIDE:
        return None
    try:
        decided = fix.decided_by(made, finding, evidence)
    except NotMeasured:
        return None
    if not decided:
        return None
    return Ratio(made.ratio, made.low, made.high, made.pairs, made.steps)


FEWEST_PAIRS = 5
"""With fewer pairs of blocks a probe has no interval of its own."""


def detect_all(
    evidence: Evidence,
    failed: Callable[[Fix, Exception], None] | None = None,
    among: Sequence[Fix] = (),
) -> tuple[Finding, ...]:
    """Ask every fix, or those `among` them, that is for such a script; some lack a number.

    A fix that fails must not cost the reader the report: `failed` is told, if given.
    """
    calm = replace(evidence, times=evidence.times.as_if_exact())

    def ask(fix: Fix, on: Evidence) -> Finding | None:
        at_ease = on is evidence and undisturbed(fix, fix.category, evidence)
        if type(fix).look is not Fix.look:
            return _shown(fix, calm if at_ease else on, evidence)
        return fix.detect(calm if at_ease else on)

    return _asked(evidence, ask, failed, among)


def possible_all(
    evidence: Evidence,
    found: Iterable[str],
    failed: Callable[[Fix, Exception], None] | None = None,
    among: Sequence[Fix] = (),
) -> tuple[Finding, ...]:
    """Ask every fix that can be tried, other than those `found` (ids), for what it could do."""
    known = set(found)

    def ask(fix: Fix, on: Evidence) -> Finding | None:
        if not (fix.rewrites or fix.sets_environment) or fix.id in known:
            return None
        if type(fix).look is not Fix.look:
            return _to_try(fix, on)
        return fix.possible(on)

    asked = _asked(evidence, ask, failed, among)
    return tuple(finding for finding in asked if finding.rewritable)


def _shown(fix: Fix, evidence: Evidence, noisy: Evidence) -> Finding | None:
    """What a fix finds that stands out of the noise, None where nothing does."""
    cause = fix.look(evidence)
    if cause is None or not cause.sure:
        return None
    saves = cause.saves
    if isinstance(saves, Unpriced):
        return fix.found(cause, None, saves.basis)
    made, bound = saves.probed(evidence), saves.bound(evidence)
    if bound is None or (made is not None and made.low < PROBE_LEAST):
        return None
    if not worth(evidence, bound) or (saves.of == "input" and not evidence.input_bound):
        return None
    finding = fix.found(cause, bound, saves.basis if made is None else PROBED)
    return _within_noise(fix, finding, noisy, by_probe=made is not None)


def _to_try(fix: Fix, evidence: Evidence) -> Finding | None:
    """What a fix would try for all that the noise allows, None where it cannot matter.

    What a probe shows to be slower stays: it needs no trial to say so.
    """
    cause = fix.look(evidence.favourable())
    if cause is None:
        return None
    saves = cause.saves
    if isinstance(saves, Unpriced):
        return fix.found(cause, None, saves.basis)
    made = saves.probed(evidence)
    if not saves.may_matter(evidence):
        return None
    if made is not None and made.vague and made.high > 1:
        made = None
    asked = (_bound_on(fix, on, by_probe=made is not None) for on in evidence.at_best())
    bounds = [bound for bound in asked if bound is not None]
    if not bounds:
        most = input_at_most(evidence) if saves.of == "input" else math.inf
        if math.isinf(most):
            return fix.found(cause, None, UNTRIED)
        return fix.found(cause, most, "no step waits for its batch")
    if max(bounds) <= 1 + SMALLEST_GAIN and made is None:
        return None
    finding = fix.found(cause, max(bounds), saves.basis if made is None else PROBED)
    return _within_noise(fix, finding, evidence, by_probe=made is not None)


def _within_noise(fix: Fix, finding: Finding, evidence: Evidence, *, by_probe: bool) -> Finding:
    """The finding with what it gives at most, in the middle of the noise and at its end.

    The middle stands beside the verdict's figures, which are of the middle too. What noise hides
    there is priced by its part alone.
    """
    assert finding.bound is not None
    exact, *ends = (evidence.as_if_exact(), *evidence.at_best())
    bounds = [_bound_on(fix, exact), *(_bound_on(fix, on, by_probe=by_probe) for on in ends)]
    limited = [
        None if bound is None else min(bound, part_at_most(fix, finding, on))
        for bound, on in zip(bounds, (exact, *ends), strict=True)
    ]
    best = max(finding.bound, *(bound or 0.0 for bound in limited))
    middle = limited[0]
    if middle is None:
        middle = min(best, part_at_most(fix, finding, exact))
    basis = f"{finding.bound_basis}{_of_the_training(fix, finding, evidence)}"
    return replace(
        finding,
        bound=middle if middle < BEYOND else None,
        bound_basis=basis,
        at_best=min(best, BEYOND),
    )


def _bound_on(fix: Fix, evidence: Evidence, *, by_probe: bool = True) -> float | None:
    try:
        cause = fix.look(evidence)
    except NotMeasured:
        return None
    if cause is None or isinstance(cause.saves, Unpriced):
        return None
    return cause.saves.bound(evidence, by_probe=by_probe)


def undisturbed(fix: Fix | None, category: Category, evidence: Evidence) -> bool:
    """Whether the noise of a step's times does not touch a cause: it is not compared with it.

    What was counted, and what lies between epochs, is not part of a step. What is lost to the
    input was set against the noise where the step was found to wait for it.
    """
    if fix is not None and (fix.counted or fix.between_epochs):
        return True
    try:
        return category in ("input", "storage") and evidence.input_bound
    except NotMeasured:
        return False


def _is_for(fix: Fix, evidence: Evidence) -> bool:
    """Whether a fix is for the script's framework.

    Where `fit` trains on PyTorch, its input may still be another framework's, and what
    changes a loop of one's own has no place.
    """
    framework = evidence.framework
    keras = framework.on_other_backend and evidence.loop.kind == "fit"
    family = type(fix).__module__.split(".")[-2]
    if fix.ahead and evidence.loop.opened_each is not None:
        return False
    if fix.framework == "any":
        return True
    if fix.framework == "keras":
        return keras or framework.name == "tensorflow"
    if keras and family in FEEDING:
        return evidence.loop.input_kind == FEEDING[family]
    return fix.framework == framework.name and not (keras and family in OWN_STEPS)


_Ask = Callable[[Fix, Evidence], Finding | None]
"""A question to a fix: what it finds, or what it would try."""

FEEDING = {"tf_data": "tf.data", "dataloader": "DataLoader"}
"""What feeds the loops that the fixes of a family are for."""
OWN_STEPS = ("torch_step", "precision")
"""Families whose fixes for PyTorch edit the step of a loop, which is Keras's own in `fit`."""


def _asked(
    evidence: Evidence,
    ask: _Ask,
    failed: Callable[[Fix, Exception], None] | None,
    among: Sequence[Fix],
) -> tuple[Finding, ...]:
    found = []
    for fix in among or all_fixes():
        if not _is_for(fix, evidence):
            continue
        try:
            finding = ask(fix, evidence)
            if finding is not None:
                old = type(fix).look is Fix.look
                priced = _priced(fix, finding, ask, evidence) if old else finding
                found.append(_governed(priced, evidence))
        except NotMeasured:
            continue
        except Exception as error:
            if failed is None:
                raise
            failed(fix, error)
    return tuple(found)


def _governed(finding: Finding, evidence: Evidence) -> Finding:
    from trainperf.fixes.common.trainers import governed  # lint asks fixes, and has no evidence

    return governed(finding, evidence)


BEYOND = 1000.0
"""What leaves less than a thousandth of a step leaves what the times' errors are: no figure."""


def _priced(fix: Fix, finding: Finding, ask: _Ask, evidence: Evidence) -> Finding:
    """The finding with what it gives at most, in the middle of the noise and at its end.

    The middle stands beside the verdict's figures, which are of the middle too. What noise hides
    there is priced by its part alone.
    """
    if finding.bound is None:
        return finding
    exact, *ends = (evidence.as_if_exact(), *evidence.at_best())
    middle, *bounds = (_bound(fix, finding, ask, on) for on in (exact, *ends))
    best = max(finding.bound, *(bound or 0.0 for bound in (middle, *bounds)))
    if middle is None:
        middle = min(best, part_at_most(fix, finding, exact))
    bound = middle if middle < BEYOND else None
    basis = f"{finding.bound_basis}{_of_the_training(fix, finding, evidence)}"
    return replace(finding, bound=bound, bound_basis=basis, at_best=min(best, BEYOND))


def _of_the_training(fix: Fix, finding: Finding, evidence: Evidence) -> str:
    """Say which part of the training the steps are that a bound is of, where it is the smaller."""
    turn = evidence.outside_
    if isinstance(turn, Missing) or turn.turn == "step" or turn.share <= MOST_OF_IT:
        return ""
    if fix.between_epochs or fix.concerns == "outside" or finding.data.get("outside"):
        return ""
    return f"; of the steps, which take {percent(1 - turn.share)} of the time"


def _bound(fix: Fix, finding: Finding, ask: _Ask, on: Evidence) -> float | None:
    """What a fix says of its bound on times and probes without noise; None if nothing."""
    try:
        asked = ask(fix, on)
    except NotMeasured:
        return None
    if asked is None or asked.bound is None:
        return None
    return min(asked.bound, part_at_most(fix, finding, on))


def part_at_most(fix: Fix, finding: Finding, evidence: Evidence) -> float:
    """Return the speed-up if the part that a finding concerns took no time, at least 1.

    An input takes what a step waits for it and what copies of its batches take. Whatever happens
    to the step itself, it is no shorter than its input. Infinity where that is not known: what
    lies outside the steps, or was counted by samples of the stack, is priced without their times.
    """
    times, apart = evidence.times, fix.concerns in ("outside", "own work")
    if apart or fix.between_epochs or "epoch" in finding.data or not is_taken(times.real_):
        return math.inf
    left = 0.0
    if finding.category in ("input", "storage") and is_taken(times.resident_):
        left = times.resident - _copying_s(evidence)
    elif finding.category in ("model", "host", "sync") and is_taken(times.input_):
        left = times.input
    return max(1.0, times.real / left) if left > 0 else math.inf


def _copying_s(evidence: Evidence) -> float:
    try:
        return evidence.torch.part("transfer").seconds
    except NotMeasured:
        return 0.0
