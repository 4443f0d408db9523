"""GitHub's workflow commands: one line each, which the runner reads from the output of a step."""

from __future__ import annotations

from trainperf.report.plain import plain


def command(kind: str, message: str, **properties: str | int) -> str:
    """Return the command `kind` ("error", "warning", "notice") with a message.

    `properties` are `file`, `line`, `col`, `endLine` and `title`, in the order given; empty ones
    are left out. All is escaped as actions/toolkit does it.
    """
    given = {name: str(value) for name, value in properties.items() if value not in ("", 0)}
    listed = ",".join(f"{name}={_property(value)}" for name, value in given.items())
    return f"::{kind} {listed}::{_data(plain(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(plain(text)).replace(":", "%3A").replace(",", "%2C")
