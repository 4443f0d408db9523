"""A training loop over several replicas, beyond what one of one asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...timing.driven_loop import Extra
    from .scopes import Strategies


class Replicas:
    """The replicas that a TensorFlow loop trains; nothing to it where it has but one."""

    def __init__(self, strategies: Strategies, update: Callable[[Any], None]) -> None:
        self.strategies = strategies
        self._update = update
        self._running = False
        self._updates: list[Any] = []

    def exchange(self) -> Any:
        """The switch of the exchange; None until one was seen."""
        exchange = self.strategies.exchange
        seen = self.strategies.trains_replicas() and exchange.reductions()
        return exchange if seen else None

    def extras(self, driver: Any) -> list[Extra]:
        """All-reduces of the gradients' sizes alone, and what connects the replicas."""
        if self.exchange() is None:
            return []
        from . import all_reduce

        return [
            ("link", lambda deadline: all_reduce.link(driver, deadline)),
            ("all_reduce", lambda deadline: all_reduce.all_reduce(driver, deadline)),
        ]

    def apart(self) -> bool:
        """Whether the ranks drained their input since this was asked last, each by itself.

        A rank whose batches then end before the others' would go on with empty ones: all
        are to begin an epoch.
        """
        exchange = self.strategies.exchange
        drained, exchange.drained = exchange.drained, False
        return drained

    def aligned(self, driver: Any, invoke: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A step that begins an epoch of its input where the ranks stand apart."""

        def step(source: Any) -> Any:
            if source is driver._source and self.apart():
                driver.reopen()
                source = driver._source
            return invoke(source)

        return step

    def ran(self, run: Callable[[], Any]) -> Any:
        """Run `strategy.run` eagerly: what its replicas update, the step updates once."""
        self._running = True
        self._updates.clear()
        try:
            return run()
        finally:
            self._running = False
            for key in self._updates:
                self._update(key)

    def updated(self, key: Any) -> None:
        """Weights were updated in another thread: a replica's, if replicas run."""
        if self._running:
            self._updates.append(key)
