"""The cases of fixes, as text in `FAMILY/ID.txt`: lines over recordings of the zoo, and rewrites.

    no   torch_healthy
    no   tiny_loop | torch.optimizers[0].fused = true  # fused already
    yes  tiny_loop
    idle tiny_loop | torch.optimizers = []
    try  tiny_loop | times.real = 0.1; probes.fused = 1.2 ± 0.3

`yes` and `no` say whether the fix finds its cause in a recording, `try` and `idle` whether it has
something to try where it found nothing. At most `MOST` fields are laid over it, see `laid_over`;
in a `no` or `idle` the last of them are what silences the fix. A line that begins with spaces goes
on with the one before it.

Rewrites are sources, marked as in `rewriting`: `--- untouched`, or `--- before` and `--- after`,
with a title after a colon, and the data of the finding as JSON at the end of the line. Those under
`--- run` are run by a test, as they are and edited, which compares what comes of it. What stands
under `--- head` begins all sources after it, up to the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import zoo
from fixes.laid_over import lay, parsed
from rewriting import Example, changed, finding_of, script_of, unmarked
from trainperf.fixes import by_id
from trainperf.model import Evidence, Site
from trainperf.rewrite import Script

FOLDER = Path(__file__).parent
KINDS = ("no", "idle", "yes", "try")
MOST = 3
BLOCK = re.compile(r"--- (untouched|before|after|run|head)(?:: (.*?))?(?: (\{.*\}))?")


@dataclass(frozen=True)
class Case:
    """A line: what a fix must say of a recording with some fields laid over it."""

    kind: str
    recording: str
    laid: tuple[tuple[str, Any], ...] = ()

    @property
    def evidence(self) -> Evidence:
        """The evidence of the recording with the fields laid over it."""
        made = _recorded(self.recording)
        for path, value in self.laid:
            made = lay(made, path, value)
        return made

    def shorter(self) -> tuple[Case, ...]:
        """The same with fewer of the fields, the last ones left out."""
        return tuple(replace(self, laid=self.laid[:count]) for count in range(len(self.laid)))


@cache
def _recorded(name: str) -> Evidence:
    return zoo.load(name).evidence


def evidence_of(text: str, values: Mapping[str, Any] | None = None) -> Evidence:
    """The evidence of a recording with fields laid over it: `torch_healthy | times.real = 0.1`.

    `values` are further fields by their paths, which no text says.
    """
    case = case_of(f"no {text}")
    laid = (*case.laid, *(values or {}).items())
    assert len(laid) <= MOST, f"more than {MOST} fields: {text}"
    return replace(case, laid=laid).evidence


@cache
def files() -> dict[str, Path]:
    """The file of each fix that has one, by its id."""
    return {path.stem: path for path in sorted(FOLDER.rglob("*.txt"))}


def _parts(id_: str) -> list[str]:
    """The lines of a fix's file, then its blocks; none where it has no file."""
    text = files()[id_].read_text(encoding="utf-8") if id_ in files() else ""
    return re.split(r"^(?=--- )", text, flags=re.MULTILINE)


@cache
def cases(id_: str) -> tuple[Case, ...]:
    """The lines of cases of a fix."""
    lines = re.sub(r"\n +", " ", _parts(id_)[0]).splitlines()
    return tuple(case_of(line) for line in lines if line and line[0] != "#")


def case_of(line: str) -> Case:
    """Read a line."""
    head, _, rest = re.sub(r"^([^|]*?)#.*", r"\1", line).partition("|")
    kind, recording = head.split()
    assert kind in KINDS, line
    laid = []
    while rest.strip():
        path, _, rest = rest.partition("=")
        value, rest = parsed(rest.strip())
        laid.append((path.strip(), value))
        assert rest[:1] in ("", ";", "#"), f"{line}: {rest}"
        rest = rest[1:] if rest[:1] == ";" else ""
    assert len(laid) <= MOST, f"more than {MOST} fields: {line}"
    return Case(kind, recording, tuple(laid))


@cache
def rewrites(id_: str) -> dict[str, Example]:
    """The rewrites of a fix by their titles, those without one by their places."""
    found: dict[str, Example] = {}
    blocks = _blocks(id_)
    for place, (kind, title, data, source) in enumerate(blocks):
        label = title or str(place)
        assert label not in found, f"{id_}: two rewrites are called {label}"
        if kind == "untouched":
            found[label] = Example.untouched(source, data)
        elif kind == "before":
            after = blocks[place + 1]
            assert after[0] == "after", f"{id_}: {label} has no source after it"
            found[label] = Example(source, after[3], data)
    return found


def runs(id_: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The sources of a fix that are run before and after, with the data of the finding."""
    blocks = _blocks(id_)
    return {title: (source, data or {}) for kind, title, data, source in blocks if kind == "run"}


def edited(id_: str, source: str, data: dict[str, Any]) -> str:
    """A source, its sites marked, as a fix edits it."""
    script, sites = script_of(source)
    repair(id_, script, sites, data)
    return changed(script)


def repair(id_: str, script: Script, sites: tuple[Site, ...], data: dict[str, Any]) -> None:
    """Edit a script at some places as a fix does, whose finding has these data."""
    fix = by_id()[id_]
    fix.rewrite(script, finding_of(fix, where=sites, data=data))


def edited_runs(id_: str, *keys: str) -> list[Any]:
    """Parameters for a test: each source that is run, as it is and as the fix edits it.

    With keys, only those whose data have them.
    """
    found = [
        pytest.param(unmarked(source), edited(id_, source, data), id=title)
        for title, (source, data) in runs(id_).items()
        if data.keys() >= set(keys)
    ]
    assert found
    return found


def _blocks(id_: str) -> list[tuple[str, str, dict[str, Any] | None, str]]:
    head, found = "", []
    for text in _parts(id_)[1:]:
        kind, title, data, source = _block(id_, text)
        if kind == "head":
            head = source.strip("\n")
        elif head:
            gap = "\n" if source[0] == " " else "\n\n\n"
            found.append((kind, title, data, head + gap + source))
        else:
            found.append((kind, title, data, source))
    return found


def _block(id_: str, text: str) -> tuple[str, str, dict[str, Any] | None, str]:
    head, _, source = text.partition("\n")
    found = BLOCK.fullmatch(head.rstrip())
    assert found is not None, f"{id_}: {head}"
    kind, title, data = found.groups()
    return kind, title or "", json.loads(data) if data else None, source.strip("\n") + "\n"
