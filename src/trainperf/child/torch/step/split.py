"""Say what was seen of the steps that were taken apart, as events."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from ...process import frames, turns
from ...process.frames import Place, site
from .calls import LOG, SCALER, TEXT, Key, Ledger, Sum
from .hooks import Settings

Write = Callable[..., None]
SCALES = (SCALER, "scaler.update")
"""Calls that read whether gradients overflowed, which is a scaler's task."""
COPIES = ("to", "cuda", "copy_")
"""Methods of a tensor that copy it to another device."""

_WRITES = frozenset(
    (
        *("add_scalar", "add_scalars", "debug", "error", "format", "info", "log", "log_metric"),
        *("log_metrics", "print", "set_description", "set_description_str", "set_postfix"),
        *("set_postfix_str", "warning", "write", "writerow"),
    )
)
"""Names of functions and methods whose arguments go into text."""


class Split:
    """The sums of the steps as events."""

    def __init__(self, ledger: Ledger, seen: Settings) -> None:
        self._ledger = ledger
        self._seen = seen

    def record(self, write: Write) -> None:
        """Write the parts of a step, its waits and logs, and its calls, as events."""
        write("torch_split", steps=self._ledger.steps, parts=self.parts())
        for sync in self.syncs():
            write("torch_sync", **sync)
        for log in self.logs():
            write("torch_log", **log)
        write("torch_calls", **self.calls())

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
        for key, total in self._ledger.sums.items():
            if key.part != "rest":
                part = parts.setdefault(key.part, [0.0, 0])
                part[0] += total.seconds
                part[1] += total.calls if key.what != SCALER else 0
        known = sum(seconds for seconds, _ in parts.values())
        parts["rest"] = [max(0.0, self._ledger.seconds - known), 0]
        if "transfer" in parts and (copies := self._where(lambda key: key.what in COPIES)):
            parts["transfer"].append(copies)
        return parts

    def syncs(self) -> list[dict[str, Any]]:
        """The calls that make the host wait, by what and where; per step."""
        return [
            {
                **self._told(key, total),
                "where": (where := site(key.place)),
                "printed": key.what in TEXT or (where is not None and _goes_into_text(where)),
            }
            for key, total in self._ledger.sums.items()
            if key.part == "sync" and key.place is not None
        ]

    def logs(self) -> list[dict[str, Any]]:
        """The calls that show the training or put it on record, by what and where; per step."""
        return [
            {
                **self._told(key, total),
                # Where it is called, or where a method begins that a library calls back.
                "where": frames.definition(key.place.f_code)
                if key.place is not None and key.place.f_lasti == 0
                else site(key.place),
                "reads": total.reads / self._ledger.steps,
            }
            for key, total in self._ledger.sums.items()
            if key.part == LOG
        ]

    def calls(self) -> dict[str, Any]:
        """Where a step calls what, and under which settings."""
        seen = self._seen
        forward = self._first(lambda key: key.part == "forward" and key.place in seen.autocast)
        if forward is None:  # reentrant checkpointing runs it without gradients
            forward = self._first(lambda key: key.part == "forward")
        return {
            "forward": site(forward),
            "backward": self._where(lambda key: key.what == "backward"),
            "step": self._where(lambda key: key.what == "step"),
            "zero_grad": self._where(lambda key: key.part == "zero_grad"),
            "clip": self._where(lambda key: key.what == "clip"),
            "autocast": seen.autocast.get(forward, ""),
            "scaler": seen.scales,
            "backwards": self._each("backward"),
            "updates": self._each("step"),
            "retains_graph": seen.retains,
            "closure": seen.closure,
        }

    # -------------------------------------------------------------------- internal

    def _told(self, key: Key, total: Sum) -> dict[str, Any]:
        steps = self._ledger.steps
        return {"what": key.what, "calls": total.calls / steps, "seconds": total.seconds / steps}

    def _each(self, what: str) -> float:
        sums = self._ledger.sums.items()
        return sum(total.calls for key, total in sums if key.what == what) / self._ledger.steps

    def _first(self, wanted: Callable[[Key], bool]) -> Place | None:
        """Where the longest of the calls that are wanted is made."""
        found = [(total.seconds, key) for key, total in self._ledger.sums.items() if wanted(key)]
        return max(found, key=lambda one: one[0])[1].place if found else None

    def _where(self, wanted: Callable[[Key], bool]) -> dict[str, Any] | None:
        return site(self._first(wanted))


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
