"""Legs that ran out of memory beside others: who is tried again, beside fewer or alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trainperf.trial.candidates import Candidate
from trainperf.trial.turns import Contest

RAN_OUT = "it ran out of memory beside other legs"
FEWER = f"{RAN_OUT}, and was tried beside fewer"
ALONE = f"{RAN_OUT}, and was tried alone"


class Crowd:
    """How many legs turn out to fit beside each other: `legs`.

    Memory that runs out is no fault of a change as long as others take a part of it. So such a
    candidate is tried again beside fewer, then in processes that run one after another: `alone`.
    """

    def __init__(self, legs: int) -> None:
        self.legs = legs
        self.alone: list[Candidate] = []
        self._notes: dict[str, str] = {}
        self._beside: dict[str, int] = {}

    def look(self, contests: Iterable[Contest], living: int) -> None:
        """Remember beside how many legs each of these ran out of memory, if it just did."""
        for contest in contests:
            if contest.leg.short_of_memory:
                self._beside.setdefault(contest.leg.name, living)

    def taken_out(
        self, entered: list[Contest], candidates: Mapping[str, Candidate]
    ) -> list[Candidate]:
        """Take those that ran out of memory out of `entered`; return who can be started again."""
        again = []
        for contest in [one for one in entered if one.leg.short_of_memory]:
            entered.remove(contest)
            candidate = candidates[contest.leg.name]
            others = self._beside.pop(candidate.name, 0)
            if others > 1:
                self.legs = min(self.legs, others)
                self._notes[candidate.name] = FEWER
                again.append(candidate)
            else:
                self.to_be_alone((candidate,))
        return again

    def to_be_alone(self, candidates: Sequence[Candidate]) -> None:
        """Try these alone: they do not fit beside the unchanged script."""
        self.alone += candidates
        self._notes |= {one.name: ALONE for one in candidates}

    def note(self, name: str, late: bool = False) -> str:
        """How a candidate was measured, if not as the others were; `late`: it was not."""
        found = self._notes.get(name, "")
        return RAN_OUT if found and late else found
