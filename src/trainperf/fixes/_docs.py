"""docs/fixes.md, made from the fixes themselves.

python -m trainperf.fixes._docs > docs/fixes.md
"""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.fixes import Fix, all_fixes
from trainperf.fixes._unseen import UNSEEN
from trainperf.trainer_settings import GOVERNS, TRIED

INTRODUCTION = """\
# The fixes

What trainperf looks for, and the repair it proposes. This page is made from the fixes
themselves (`src/trainperf/fixes/`); `trainperf explain NAME` says why it is slow,
what changes, and when not to.

**Changes** says what a fix may do to training: *exact* keeps the numbers and the order
of samples, *numerics* keeps the mathematics but not rounding, order or random stream,
*semantics* changes the experiment, *environment* is outside the source. **Patch** says
whether trainperf can write the edit itself, or only names variables to set; below the table
stands why the others have none. **Seen** says whether a recorded run shows the cause, or what it
would take.
"""


LIBRARIES = """\
Where the steps are made by one of these libraries, a repair is its setting: trainperf gives it to
the call of yours that makes the object, or changes what that call has the value from. What an
option of the command becomes (`HfArgumentParser`, `LightningCLI`, an option that you gave) is
tried, and given to you, as an option of the command. What is read from a JSON or YAML file that
the command names is changed in that file; a trial is given a changed copy of it. A setting that
the installed version does not have is not offered. Where a cell names a call that is none of these
objects', the edit goes to that call.
"""


def catalogue_markdown() -> str:
    """Return the whole page: a table by category, who has no edit, and settings of libraries."""
    ordered = sorted(all_fixes(), key=lambda fix: (fix.category, fix.id))
    parts = [INTRODUCTION, "\n".join(_index(ordered)), "\n".join(_without_edit(ordered))]
    parts.append("\n".join(_in_libraries(ordered)))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _index(fixes: list[Fix]) -> Iterator[str]:
    yield "| fix | repair | about | changes | patch | seen |"
    yield "|---|---|---|---|---|---|"
    for fix in fixes:
        patch = "yes" if fix.rewrites else "variables" if fix.sets_environment else "–"
        kind = f"{fix.category} | {fix.equivalence.value}"
        seen = f"not yet: {UNSEEN[fix.id]}" if fix.id in UNSEEN else "yes"
        yield f"| `{fix.id}` | {fix.summary} | {kind} | {patch} | {seen} |"


def _without_edit(fixes: list[Fix]) -> Iterator[str]:
    """Say why fixes have no edit, those with the same reason together."""
    yield "## Without an edit, and why"
    yield ""
    reasons: dict[str, list[str]] = {}
    for fix in fixes:
        if not fix.rewrites and not fix.sets_environment:
            reasons.setdefault(fix.without_edit, []).append(f"`{fix.id}`")
    for reason, names in reasons.items():
        yield f"- {', '.join(names)}: {reason}."


def _in_libraries(fixes: list[Fix]) -> Iterator[str]:
    """Say where a repair is written in the loop of a library: its setting, or another call."""
    yield "## Where the loop is a library's"
    yield ""
    yield LIBRARIES
    yield "| library | oldest version tried | newest |"
    yield "|---|---|---|"
    for library, (oldest, newest) in TRIED.items():
        yield f"| {library} | {oldest} | {newest} |"
    yield ""
    heads = "Transformers: `TrainingArguments` | Lightning: `Trainer` | accelerate: `Accelerator`"
    yield f"| fix | repair | {heads} |"
    yield "|---|---|---|---|---|"
    known = {fix.id: fix for fix in fixes}
    ids = dict.fromkeys(id_ for settings in GOVERNS.values() for id_ in settings)
    for id_ in (*ids, *(fix.id for fix in fixes if fix.in_libraries)):
        cells = " | ".join(_edited_in(library, known[id_]) for library in GOVERNS)
        yield f"| `{id_}` | {known[id_].summary} | {cells} |"


def _edited_in(library: str, fix: Fix) -> str:
    settings = [f"`{one.said}`" for one in GOVERNS[library].get(fix.id, ())]
    return ", or ".join(settings) or fix.in_libraries.get(library, "–")


if __name__ == "__main__":
    print(catalogue_markdown(), end="")
