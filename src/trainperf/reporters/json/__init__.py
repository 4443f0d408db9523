"""The report as JSON: the keys of `Diagnosis`, as docs/report-format.md tells."""

from __future__ import annotations

from typing import Any

import msgspec

from trainperf.model import Diagnosis
from trainperf.model.encoding import encoded


def render(diagnosis: Diagnosis) -> str:
    """Return the report as indented JSON, without a newline at its end.

    Bytes of a file name that are no text are written as "?". A number that is not
    finite is written as null.
    """
    values = encoded(diagnosis)
    try:
        data = msgspec.json.encode(values)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_as_text(msgspec.to_builtins(values)))
    return msgspec.json.format(data, indent=2).decode()


def _as_text(value: Any) -> Any:
    """Replace the lone surrogates that Python reads undecodable file names as."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_as_text(key): _as_text(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_text(inner) for inner in value]
    return value
