"""Errors, each with the next step for the person who meets it."""

from __future__ import annotations


class TrainperfError(Exception):
    """Something trainperf cannot go on from.

    `hint` is the next step, printed on a line of its own. `exit_code` is 2 for a
    wrong call or our own failure, 3 where the user's script failed.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ScriptFailed(TrainperfError):  # noqa: N818 - names an outcome, not a class of bug
    """The user's script ended with an error before anything could be measured."""

    exit_code = 3


class NothingToCompare(TrainperfError):  # noqa: N818 - names an outcome
    """Two states of the user's files that are one."""

    exit_code = 0


class NotMeasured(Exception):  # noqa: N818 - names an absence, not an error
    """A number that was not taken, with the reason. It is never 0."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CannotRewrite(Exception):  # noqa: N818 - names an outcome, not a class of bug
    """An edit that cannot be made, with the reason in words a user understands."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
