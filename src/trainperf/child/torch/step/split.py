"""Say what was seen of the steps that were taken apart, as events."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...process import frames, turns
from ...process.frames import Place, site
from .arguments import CallArguments
from .calls import EVALUATION, LOG, SCALER, TEXT, Key, Ledger, Sum

Write = Callable[..., None]
SCALES = (SCALER, "scaler.update")
"""Calls that read whether gradients overflowed, which is a scaler's task."""
COPIES = ("to", "cuda", "copy_")
"""Methods of a tensor that copy it to another device; the others of "transfer" wait for that."""

_WRITES = frozenset(
    (
        *("add_scalar", "add_scalars", "debug", "error", "format", "info", "log", "log_metric"),
        *("log_metrics", "print", "set_description", "set_description_str", "set_postfix"),
        *("set_postfix_str", "warning", "write", "writerow"),
    )
)
"""Names of functions and methods whose arguments go into text."""
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Split:
    """The sums of the steps, with each forward in evaluation mode taken for what it is.

    It is part of training if it is derived, if it stands in the same loop of the same
    function as a call of the training step (a teacher, a frozen part), or if each step
    has it as often as it has forwards in training mode. Otherwise it is an evaluation,
    and its time in a step is no part of its forward.
    """

    def __init__(self, ledger: Ledger, seen: CallArguments) -> None:
        self._ledger = ledger
        self._seen = seen
        self._evaluations = {key.place for key in ledger.sums if key.part == EVALUATION}
        self._evaluations = {one for one in self._evaluations if not self._trains(one)}

    def record(self, write: Write) -> None:
        """Write the parts of a step, its waits and logs, its calls, and evaluations, as events."""
        write("torch_split", steps=self._ledger.steps, parts=self.parts())
        for sync in self.syncs():
            write("torch_sync", **sync)
        for log in self.logs():
            write("torch_log", **log)
        write("torch_calls", **self.calls())
        for evaluation in self.evaluations():
            write("torch_evaluation", **evaluation)

    def record_waits(self, write: Write, waits: Mapping[Place, int]) -> None:
        """Write an event `torch_wait` for each place that waits for a GPU, per step.

        Those that the hooks have timed are left out, and what a gradient scaler reads.
        """
        timed = {
            (key.place.f_code, key.place.f_lineno)
            for key in self._ledger.sums
            if key.place is not None and (key.part in ("sync", "transfer") or key.what in SCALES)
        }
        for place, calls in waits.items():
            if (place.f_code, place.f_lineno) not in timed:
                write("torch_wait", where=site(place), calls=calls / self._ledger.steps)

    def parts(self) -> dict[str, list[Any]]:
        """Seconds and calls of each part that was seen, over all steps, and of the rest.

        Copies have the place of the dearest of them as well.
        """
        parts: dict[str, list[Any]] = {}
        for key, one in self._ledger.sums.items():
            part = self._part(key)
            if part in ("rest", EVALUATION):
                continue
            total = parts.setdefault(part, [0.0, 0])
            total[0] += one.seconds
            total[1] += one.calls if key.what != SCALER else 0
        known = sum(seconds for seconds, _ in parts.values())
        parts["rest"] = [max(0.0, self._ledger.seconds - known), 0]
        if "transfer" in parts:
            copies = self._sums(lambda key: key.part == "transfer" and key.what in COPIES)
            parts["transfer"] += [site(place)] if (place := _first(copies)) else []
        return parts

    def syncs(self) -> list[dict[str, Any]]:
        """The calls that make the host wait, by what and where; per step."""
        steps = self._ledger.steps
        return [
            {
                "what": key.what,
                "where": (where := site(key.place)),
                "calls": one.calls / steps,
                "seconds": one.seconds / steps,
                "printed": key.what in TEXT or (where is not None and _goes_into_text(where)),
            }
            for key, one in self._ledger.sums.items()
            if key.part == "sync" and key.place is not None
        ]

    def logs(self) -> list[dict[str, Any]]:
        """The calls that show the training or put it on record, by what and where; per step."""
        steps = self._ledger.steps
        return [
            {
                "what": key.what,
                # Where it is called, or where a method begins that a library calls back.
                "where": frames.definition(key.place.f_code)
                if key.place is not None and key.place.f_lasti == 0
                else site(key.place),
                "calls": one.calls / steps,
                "seconds": one.seconds / steps,
                "reads": one.reads / steps,
            }
            for key, one in self._ledger.sums.items()
            if key.part == LOG
        ]

    def calls(self) -> dict[str, Any]:
        """Where a step calls what, and under which settings."""
        seen, steps = self._seen, self._ledger.steps
        forward = self._forward()
        backwards = self._sums(lambda key: key.what == "backward")
        updates = self._sums(lambda key: key.what == "step")
        return {
            "forward": site(forward),
            "backward": site(_first(backwards)),
            "step": site(_first(updates)),
            "zero_grad": site(_first(self._sums(lambda key: key.part == "zero_grad"))),
            "clip": site(_first(self._sums(lambda key: key.what == "clip"))),
            "autocast": seen.autocast.get(forward, ""),
            "scaler": seen.scales,
            "backwards": _calls(backwards.values()) / steps,
            "updates": _calls(updates.values()) / steps,
            "retains_graph": seen.retains,
            "closure": seen.closure,
        }

    def evaluations(self) -> list[dict[str, Any]]:
        """The forwards in steps that no update follows, by where they are called."""
        found = []
        for place in self._evaluations:
            sums = [
                one
                for key, one in self._ledger.sums.items()
                if key.part == EVALUATION and key.place == place and self._seen.has_weights(key.of)
            ]
            calls = sum(one.calls for one in sums)
            if place is None or not calls:
                continue
            found.append(
                {
                    "where": site(place),
                    "loop": frames.definition(place.f_code),
                    "grad": self._seen.recorded.get(place, False),
                    "calls": calls,
                    "seconds": sum(one.seconds for one in sums) / calls,
                }
            )
        return found

    # -------------------------------------------------------------------- internal

    def _part(self, key: Key) -> str:
        if key.part == EVALUATION and key.place not in self._evaluations:
            return "forward"
        return key.part

    def _trains(self, place: Place | None) -> bool:
        if place in self._seen.trained:
            return True
        sums = self._ledger.sums
        here = [sums[key] for key in sums if key.place == place and key.part == EVALUATION]
        trained = self._sums(lambda key: key.part == "forward" and self._seen.has_weights(key.of))
        always = any(one.steps == self._ledger.steps > 1 for one in here)
        if always and _calls(here) <= _calls(trained.values()):
            return True
        if place is None:
            return False
        where = _enclosing(place)
        return any(
            key.place is not None and _enclosing(key.place) == where
            for key in sums
            if key.part in ("forward", "backward", "optimizer")
        )

    def _forward(self) -> Place | None:
        """Where the forward is called that takes longest, of models with weights.

        Reentrant checkpointing runs it without gradients, as an evaluation does.
        """
        sums = self._sums(
            lambda key: self._part(key) == "forward" and self._seen.has_weights(key.of)
        )
        trained = {
            key: one
            for key, one in sums.items()
            if key.part == "forward" or key.place in self._seen.trained
        }
        return _first(trained or sums)

    def _sums(self, wanted: Callable[[Key], bool]) -> dict[Key, Sum]:
        """The sums of the calls that are wanted, the longest first."""
        found = {key: one for key, one in self._ledger.sums.items() if wanted(key)}
        return dict(sorted(found.items(), key=lambda each: -each[1].seconds))


def _first(sums: dict[Key, Sum]) -> Place | None:
    return next(iter(sums)).place if sums else None


def _calls(sums: Iterable[Sum]) -> int:
    return sum(one.calls for one in sums)


def _enclosing(place: Any) -> tuple[str, int, int]:
    """The file, the function's first line and the innermost loop's (0: none) of a place."""
    path = os.path.abspath(place.f_code.co_filename)
    loops = turns.nodes_around(place, _LOOPS)
    return path, place.f_code.co_firstlineno, loops[0].lineno if loops else 0


def _goes_into_text(site: dict[str, Any]) -> bool:
    """Whether what is called at a site is printed, logged or put into an f-string there."""
    line, end_line = site["line"], site.get("end_line") or site["line"]
    begins, ends = (line, site.get("col") or 0), (end_line, site.get("end_col") or 0)
    for node in turns.nodes_of(site["file"]):
        called = getattr(node, "func", None)
        name = getattr(called, "id", "") or getattr(called, "attr", "")
        if isinstance(node, ast.JoinedStr) or name in _WRITES:
            last = (node.end_lineno or 0, node.end_col_offset or 0)
            if (node.lineno, node.col_offset) <= begins and ends <= last:
                return True
    return False
