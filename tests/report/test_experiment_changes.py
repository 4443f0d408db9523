"""The work of a second in which changes of the experiment are told."""

from __future__ import annotations

from reporters.samples import ONE_KEPT

(_, LARGER_BATCH) = ONE_KEPT.experiment_changes
