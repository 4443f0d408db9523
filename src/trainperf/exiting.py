"""What `trainperf diagnose` exits with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.model import Diagnosis, Ending, Finding, Outcome, Trial

if TYPE_CHECKING:
    from trainperf.settings import Settings


def exit_status(diagnosis: Diagnosis, settings: Settings) -> int:
    """Return what the process exits with.

    0 done, 1 `--fail-on` met, 2 no loop seen or no step of it timed, 3 the script
    failed, 130 interrupted.
    """
    if diagnosis.ending in (Ending.FAILED, Ending.SIGNALLED, Ending.STALLED):
        return 3
    if diagnosis.ending is Ending.INTERRUPTED:
        return 130
    if diagnosis.loop is None or diagnosis.times.real_s is None:
        return 2
    if diagnosis.trying is not None and diagnosis.trying.interrupted:
        return 130
    return 1 if _fails(diagnosis, settings.fail_on) else 0


def _fails(diagnosis: Diagnosis, fail_on: str | float) -> bool:
    """Whether `--fail-on` is met: by measured speed-ups where there are some, else bounds."""
    if fail_on == "none":
        return False
    tried = {trial.fix: trial for trial in diagnosis.trials}
    counting = [one for one in diagnosis.findings if _counts(tried.get(one.id))]
    if isinstance(fail_on, str):
        return bool(counting)
    worth = [_worth(one, tried.get(one.id)) for one in counting]
    if diagnosis.stack is not None:
        worth.append(diagnosis.stack.speedup)
    return any(each is None or each >= fail_on for each in worth)


def _counts(trial: Trial | None) -> bool:
    return trial is None or trial.outcome not in (Outcome.NO_EFFECT, Outcome.SLOWER)


def _worth(finding: Finding, trial: Trial | None) -> float | None:
    """The speed-up that repairing a finding gives: as measured, else at most."""
    if trial is not None and trial.speedup is not None:
        return trial.speedup
    return finding.bound
