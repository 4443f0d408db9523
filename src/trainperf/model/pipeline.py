"""The input pipeline, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trainperf.model.basics import Missing, Site, Taken


@dataclass(frozen=True)
class Function:
    """A function of the user's, with where it is defined."""

    name: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class DrawnFrom:
    """The line at which a `map`'s function begins to draw random numbers.

    `element_bytes` is what it has made of one element by then and still works on, which is what
    a cache ahead of that line would hold.
    """

    line: int
    element_bytes: int


@dataclass(frozen=True)
class Stage:
    """One stage of the input pipeline, timed by draining the prefix that ends in it.

    `op` is the name of the call that built it (`map`, `batch`, `from_generator`, …),
    `where` that call, `function` the user's function it applies. `arguments` holds
    the settings that matter, as Python values: `num_parallel_calls` (None where the
    stage is serial, -1 for AUTOTUNE), `deterministic`, `buffer_size`, `batch_size`,
    `drop_remainder`, `cycle_length`, `cache_file`, `count`, `workers`,
    `use_multiprocessing`, `max_queue_size`.

    `seconds_per_step` is what this stage adds to the time of its prefix, for the
    data of one step; `cumulative` is the whole prefix. `elements_per_step` is how
    many elements leave the stage in one step. `first_s` is the time to its first
    element. `parallelised_by_default` says that tf.data runs this serial-looking
    stage in parallel by itself. `drawn_from` is None where its function does not draw random
    numbers, or where that was not looked into.
    """

    index: int
    op: str
    seconds_per_step_: float | Missing
    cumulative_: float | Missing
    where: Site | None = None
    function: Function | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    elements_per_step: float | None = None
    element_bytes: int | None = None
    cardinality: int | None = None  # elements in all; None unknown, -1 infinite
    first_s: float | None = None
    ops: tuple[str, ...] = ()  # op types in the function's graph
    stateful_random: bool = False
    drawn_from: DrawnFrom | None = None
    python: bool = False  # py_function or numpy_function inside
    parallelised_by_default: bool = False
    by_user: bool = True  # False for what the framework appended (Keras adapters)

    seconds_per_step = Taken[float]()
    cumulative = Taken[float]()
