"""The report as JSON: the keys of `Diagnosis`, as docs/report-format.md tells."""

from __future__ import annotations

import msgspec

from trainperf import store
from trainperf.model import Diagnosis


def render(diagnosis: Diagnosis) -> str:
    """Return the report as indented JSON, without a newline at its end.

    It is what `store.save` writes, but a number that is not finite is null.
    """
    data = msgspec.json.encode(store.plain(diagnosis, lambda value, field: None))
    return msgspec.json.format(data, indent=2).decode()
