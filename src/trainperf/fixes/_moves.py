"""Let two neighbouring calls of a pipeline change places, however they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script


def change_places(script: Script, one: Site, other: Site) -> None:
    """Swap two calls: `x.a().b()`, in one statement, or `x = x.a()`, `x = x.b()`.

    The order of the two sites does not matter. Raises `CannotRewrite` where the calls
    are written in any other way.
    """
    if one.file == other.file and script.around(one)[-1] is script.around(other)[-1]:
        receiver = script.receiver(max(one, other, key=_end))
        if _end(receiver) != _end(min(one, other, key=_end)):
            raise CannotRewrite("another call stands between the two")
        script.swap_last_two_calls(max(one, other, key=_end))
    else:
        script.swap_statements(one, other)


def _end(site: Site) -> tuple[int, int]:
    return site.end_line, site.end_col
