"""From findings to one patch; what could not be written is named with its reason."""

from __future__ import annotations

import ast
import hashlib
import os
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.model import Equivalence, Finding, NotTaken, Patch, PatchedFile, Site
from trainperf.recording.cells import in_reason, is_notebook
from trainperf.rewrite.diff import changed_lines
from trainperf.rewrite.script import Reader, Script, default_reader
from trainperf.source.notebooks.notebook import as_run
from trainperf.source.scopes import FUNCTIONS, LOOPS
from trainperf.source.text import Source, parsed

SEMANTICS = "changes the experiment (semantics): not in the default patch"
ALREADY = "the source has it already"


@dataclass(frozen=True)
class Written:
    """A patch, and the very bytes its files hold once it is applied.

    `contents` has them by absolute path, as the findings' sites name the file. Trials
    run these bytes, so that what is tried is what the patch does.
    """

    patch: Patch
    contents: dict[str, bytes]


@dataclass(frozen=True, eq=False)
class Edited:
    """A script as the repairs of some findings leave it, with the variables that they set.

    `diff` is for `git apply`, `shown` to be read.
    """

    script: Script
    diff: str = ""
    shown: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def plus(self, finding: Finding, fix: Fix | None) -> Edited:
        """Return it with one more repair; raises `CannotRewrite`."""
        if fix is None or not (fix.rewrites or fix.sets_environment):
            raise CannotRewrite("no fix of that name can edit source")
        if not finding.rewritable:
            raise CannotRewrite("no edit can be written for it here")
        script = self.script.copy()
        try:
            if fix.rewrites:
                fix.write(script, finding)
            added = fix.environment(finding)
            diff, shown = script.diff(), script.shown()
        except CannotRewrite:
            raise
        except Exception as error:  # a fix gone wrong must not cost the report
            raise CannotRewrite(f"the rewrite failed: {type(error).__name__}: {error}") from error
        for name, value in added.items():
            if self.environment.get(name, value) != value:
                raise CannotRewrite(f"another fix sets {name} to {self.environment[name]}")
        environment = {**self.environment, **added}
        same = (diff, environment) == (self.diff, self.environment)
        if same and script.options == self.script.options:
            raise CannotRewrite(ALREADY)
        return Edited(script, diff, shown, environment)


class Edits:
    """The edits of findings, in the user's files under `root`: each is made once.

    Each file is read once, too: what is shown, tried and written is the same to the byte.
    """

    def __init__(
        self, root: str | Path, fixes: Mapping[str, Fix], read: Reader = default_reader
    ) -> None:
        self._fixes = fixes
        self._none = Edited(Script(root, cache(read)))
        self._made: dict[tuple[object, ...], Edited | CannotRewrite] = {}

    def of(self, finding: Finding, before: Edited | None = None) -> Edited:
        """Return the edit of a finding, on top of those `before`; raises `CannotRewrite`."""
        before = before or self._none
        key = (before, finding.id, finding.where, finding.rewritable, repr(finding.data))
        if key not in self._made:
            try:
                self._made[key] = before.plus(finding, self._fixes.get(finding.id))
            except CannotRewrite as error:
                self._made[key] = error
        made = self._made[key]
        if isinstance(made, CannotRewrite):
            raise made
        return made

    def write(self, findings: Sequence[Finding], only: Collection[str] | None = None) -> Written:
        """Write the edits of all rewritable findings, first come first served; never raises.

        A finding whose edit does not go together with those before it is skipped, as is
        one that changes the experiment. With `only`, just the findings of these ids are written,
        such as change the experiment as well, in that order.
        """
        edit, taken, skipped = self._none, list[Finding](), list[NotTaken]()
        wanted = [finding for finding in findings if finding.rewritable]
        if only is not None:
            wanted = [one for id_ in dict.fromkeys(only) for one in findings if one.id == id_]
        for finding in wanted:
            try:
                if finding.equivalence is Equivalence.SEMANTICS and only is None:
                    raise CannotRewrite(SEMANTICS)
                _check_together(finding, taken, self._fixes)
                edit = self.of(finding, edit)
                taken.append(finding)
            except CannotRewrite as error:
                notebook = any(is_notebook(site.file) for site in finding.where)
                reason = in_reason(error.reason) if notebook else error.reason
                skipped.append(NotTaken(finding.id, reason))
        script, originals = edit.script, sorted(edit.script.originals().items())
        patch = Patch(
            diff=edit.diff,
            findings=tuple(dict.fromkeys(finding.id for finding in taken)),
            skipped=tuple(skipped),
            root=script.root,
            files=tuple(PatchedFile(path, hash_of(path, data)) for path, data in originals),
            environment=edit.environment,
            arguments=script.arguments,
            cells=edit.shown if edit.shown != edit.diff else "",
        )
        return Written(patch, script.contents())

    def lines(self, finding: Finding) -> str:
        """Return the lines that a finding's edit adds or changes, as they are afterwards.

        '' where it has no edit of its own, or a long one; never raises. Indentation that all
        lines share is left out, and "..." stands between places, and for the body that follows a
        head.
        """
        try:
            return _added_lines(self.of(finding).shown)
        except CannotRewrite:
            return ""


def _check_together(finding: Finding, taken: Sequence[Finding], fixes: Mapping[str, Fix]) -> None:
    """Raise `CannotRewrite` where a repair must not be made beside one made before."""
    for other in taken:
        for one, beside in ((finding, other), (other, finding)):
            fix = fixes.get(one.id)
            reason = fix.clashes(one, beside) if fix is not None else ""
            if reason:
                raise CannotRewrite(reason)


MOST_LINES = 24
"""An edit of more lines than this is better read in the patch."""


def _added_lines(diff: str) -> str:
    places: list[list[str]] = []
    beside = False
    for line in diff.splitlines():
        added = line.startswith("+") and not line.startswith("+++ ")
        if added and not beside:
            places.append([])
        if added:
            places[-1].append(line[1:])
        beside = added or (beside and line.startswith("-"))
    texts = [textwrap.dedent("\n".join(lines)).strip("\n") for lines in places]
    texts = [text for text in texts if text.strip()]
    parts = [part for text in texts for part in (text, _rest(text))]
    if texts and not texts[-1].endswith(":"):
        parts.pop()
    text = "\n".join(parts)
    return text if text.count("\n") < MOST_LINES else ""


def _rest(text: str) -> str:
    """What stands for the lines that follow: of a head, its body."""
    last = text.rpartition("\n")[2]
    return last[: len(last) - len(last.lstrip())] + "    ..." if last.endswith(":") else "..."


def hash_of(path: str, data: bytes) -> str:
    """Return the SHA-256 of a file in hexadecimal, of a notebook that of its code.

    Raises `ValueError` for what is no notebook.
    """
    return hashlib.sha256(as_run(path, data)).hexdigest()


def answered(
    findings: Iterable[Finding], patch: Patch, training: Site | None, read: Reader
) -> tuple[Finding, ...]:
    """The findings all of whose places the patch edits.

    It edits a place where it changes its statement, or the innermost loop around it: but for
    the loop that trains, at `training`, whose steps hold all that is left to be found.
    """
    return tuple(
        one
        for one in findings
        if one.where and all(_edits(patch, place, training, read) for place in one.where)
    )


def _edits(patch: Patch, place: Site, training: Site | None, read: Reader) -> bool:
    changed = changed_lines(patch.diff, os.path.relpath(place.file, patch.root).replace("\\", "/"))
    if not changed or is_notebook(place.file):
        return False
    try:
        source = parsed(place.file, read(place.file))
        return bool(changed & _lines_of(source, place, training))
    except (OSError, ValueError, CannotRewrite):
        return False


def _lines_of(source: Source, place: Site, training: Site | None) -> set[int]:
    """The lines of the innermost statement, its head where it holds others, and of the loop."""
    inner, _ = source.statement(place)
    body = getattr(inner, "body", None)
    lines = set(range(inner.lineno, body[0].lineno) if body else _lines(inner))
    around = [] if isinstance(inner, (*FUNCTIONS, ast.ClassDef)) else source.module.loops(inner)
    loop = inner if isinstance(inner, LOOPS) else next(iter(around), None)
    if loop is None or training is None:
        return lines
    trains = training.file == place.file and training.line in _lines(loop)
    return lines if trains else lines | set(_lines(loop))


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)
