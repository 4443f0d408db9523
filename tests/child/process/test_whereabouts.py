"""Where the main thread is, as another thread sees it."""

from __future__ import annotations

import threading
from typing import Any

from trainperf.child.process.stacks import Whereabouts


class Kept:
    """What would have been recorded."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, kind: str, **fields: Any) -> None:
        self.events.append({"e": kind, **fields})


def test_a_line_is_recorded_once_however_long_it_takes() -> None:
    kept, told, looked = Kept(), threading.Event(), threading.Event()
    seen = Whereabouts(kept)

    def look() -> None:
        told.wait()
        while not kept.events or kept.events[-1]["into"] != "wait":
            seen.look()
        seen.look()
        looked.set()

    def stand() -> bool:
        return told.set() is None and looked.wait(60)

    thread = threading.Thread(target=look)
    thread.start()
    assert stand()
    thread.join()
    event = kept.events[-1]
    assert kept.events.count(event) == 1
    assert (event["e"], event["file"], event["function"]) == ("at", __file__, "stand")
    assert event["line"] == stand.__code__.co_firstlineno + 1
