"""What driving a loop takes from the kind of loop it is: pull, replay, wait, describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Driven:
    """Base of `Driver`: what subclasses say of their kind of loop, with what holds for most.

    `kind` names the loop ("fit", "iterator", "call", "update").
    """

    kind = ""

    def serves(self, owner: Any) -> bool:
        """Whether this driver times the loop of `owner` (a model, a function)."""
        return False

    def pull(self, count: int) -> int:
        """Take up to `count` batches from the input, no model; return how many came.

        What opening the input again takes, to its first batch, goes into `restarts`.
        """
        raise NotImplementedError

    def prepare_resident(self) -> str:
        """Get the batches to replay; return "" or why there are none."""
        raise NotImplementedError

    def sync(self) -> None:
        """Wait until the device has done what was queued."""

    def describe(self) -> dict[str, Any]:
        """Facts about the loop that are known once it runs."""
        return {}

    def find_exchange(self) -> Any:
        """What can switch the exchange of gradients off and on, None if there is none."""
        return None

    def exchange_extras(self) -> list[tuple[str, Callable[[float], None]]]:
        """What is to be measured of the exchange alone; the ranks do it in step."""
        return []

    def probe_names(self) -> tuple[str, ...]:
        """The probes that could be made of such a loop, for where none of them is."""
        return ()

    def buffered(self) -> int:
        """How many batches may be ready before anything is drained."""
        return 0

    def profile_begins(self) -> None:
        """Steps whose times enter no figure begin."""

    def profile_ends(self) -> None:
        """Steps whose times enter no figure are over."""

    def calls(self) -> list[dict[str, Any]]:
        """What the script called besides its steps since the last time this was asked."""
        return []

    def can_end(self) -> bool:
        """Whether the loop can be let end here, to see what comes between epochs."""
        return True

    def ending_begins(self) -> None:
        """All is measured but what comes between epochs."""

    def ending_ends(self) -> None:
        """What comes between epochs was seen."""
