"""The one clock of a diagnosis: when measuring and the extras after it must have ended.

`CLOCK_MONOTONIC` is the same in all processes of a machine, so the observed process is told
the moment at which the diagnosis began.
"""

from __future__ import annotations

import math
from typing import Any

MEASURE_SHARE = 0.2
"""So much of the budget may be over when the last round of timing begins."""
ORDER_SHARE = 0.12
ORDER_LEFT = 0.07
"""The same where trials come after, and of what is left after a long start: times only order what
is tried then, trials decide."""
WITH_TRIALS = 0.35
"""So much of it may be over when an observed run ends that trials come after."""
ALONE = 0.9
"""The same where nothing comes after but the report."""
LEFT_SHARE = 0.15
"""Where a script needed longer than its share to begin: this much of what is left then."""
LACKING = "too little time was left"


class Budget:
    """The time that a diagnosis may take, by the settings of the observed run.

    `began` is on `time.monotonic()`. `share` of `whole_s` may be over when the extras
    end: less where `trials` come after. `measure_cap_s` and `extra_cap_s` are limits that
    the user set.
    """

    def __init__(self, settings: dict[str, Any], now: float) -> None:
        began = settings.get("began")
        self.began = now if began is None else float(began)
        self.whole_s = float(settings.get("budget_s") or math.inf)
        self.trials = bool(settings.get("trials"))
        self.share = WITH_TRIALS if self.trials else ALONE
        self.extra_cap_s: float | None = settings.get("extra_s")
        self.measure_cap_s: float | None = settings.get("measure_s")

    @classmethod
    def of(cls, driver: Any) -> Budget:
        return cls(driver.process.settings, driver.clock())

    @property
    def end(self) -> float:
        return self.began + self.whole_s

    def measure_by(self, now: float) -> float:
        """When no further round of timing may begin, for one whose first begins `now`."""
        share, left = (ORDER_SHARE, ORDER_LEFT) if self.trials else (MEASURE_SHARE, LEFT_SHARE)
        return self._by(now, share, left, self.measure_cap_s)

    def extra_by(self, now: float) -> float:
        """When the extras must have ended that begin `now`."""
        return self._by(now, self.share, LEFT_SHARE, self.extra_cap_s)

    def lacking(self, takes_s: float, now: float) -> str:
        """Say that `takes_s` seconds do not fit any more, and with which budget they would."""
        if self.extra_cap_s is not None:
            return f"{LACKING}: `extra` allows {self.extra_cap_s:g} s for all of this"
        if not math.isfinite(self.whole_s):
            return LACKING
        needed = (now - self.began + 1.25 * takes_s) / self.share
        minutes = max(math.ceil(needed / 60), math.floor(self.whole_s / 60) + 1)
        return f"{LACKING}; --budget {minutes}min would do"

    def _by(self, now: float, share: float, left: float, cap_s: float | None) -> float:
        by = max(self.began + share * self.whole_s, now + left * (self.end - now))
        return by if cap_s is None else min(by, now + cap_s)
