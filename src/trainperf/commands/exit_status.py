"""The exit status of `trainperf diagnose`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.recording.run import Ending
from trainperf.report.level import failing

if TYPE_CHECKING:
    from trainperf.model import Diagnosis
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
    return 1 if failing(diagnosis, settings.fail_on) else 0
