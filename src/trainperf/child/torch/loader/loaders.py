"""Each place where `DataLoader`s were built, and which of them trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...process.process import Attempt
from . import datasets, settings, sharing
from .places import Place, key_of


def record(driver: Any) -> None:
    """Record an event `torch_loader` for each place where loaders were built.

    What timing the stages found (`driver.loader_facts`) goes with the loader of the
    training loop, which comes first; a step may take batches from others beside it. Those that
    Keras makes of what else `fit` was given are not the user's.
    """
    if driver.kind == "fit" and driver.loader is None:
        return
    places: dict[Any, Place] = getattr(driver.loops, "loader_places", {})
    driver.loaders_known = _known(driver)
    training = driver.loader
    own = key_of(getattr(training, "_trainperf_site", None)) if training is not None else None
    source = _source(places, own, training) if training is not None else None
    if training is not None and source is None and own not in places:
        _write(driver, None, training, "training")
    feeder = own if source is None else source
    beside = {
        key_of(getattr(one, "_trainperf_site", None))
        for one in getattr(driver, "companions", list)()
    }
    for key, place in sorted(places.items(), key=lambda each: each[0] != feeder):
        feeds = training is not None and key == feeder
        loader = training if feeds else place.loader()
        role = "training" if feeds or key in beside else ""
        if place.iterated and not role and key != own:
            role = "evaluation"
        _write(driver, place, loader, role)


def record_again(driver: Any) -> None:
    """Record them anew if epochs that have ended since built or opened more of them."""
    if _known(driver) != getattr(driver, "loaders_known", None):
        record(driver)


def _known(driver: Any) -> list[tuple[int, bool]]:
    places: dict[Any, Place] = getattr(driver.loops, "loader_places", {})
    return [(place.built, place.iterated) for place in places.values()]


def _source(places: dict[Any, Place], own: Any, training: Any) -> Any:
    """The place of the user's own loader that a library made the training loader from."""
    if own in places and places[own].direct:
        return None
    dataset = id(training.dataset), type(training.dataset)
    found = [key for key, one in places.items() if one.direct and one.dataset == dataset]
    return found[-1] if found else None


def _write(driver: Any, place: Place | None, loader: Any, role: str) -> None:
    fields: dict[str, Any] = dict(place.settings) if place is not None else {}
    if loader is not None:
        fields |= settings.settings_of(loader)
        fields["batches"] = settings.batches_of(loader)
    if place is not None:
        fields |= {"where": place.where, "built": place.built, "given": place.given}
        fields["shared_state"] = place.shared_state
        if not place.direct and place.where is not None:
            fields["where"] = {name: place.where[name] for name in ("file", "line", "function")}
    if loader is not None:
        fields |= _looked_into(driver, loader, fields.get("shared_state"))
    if loader is not None and loader is driver.loader:
        fields |= getattr(driver, "loader_facts", {})
    driver.record.write("torch_loader", role=role, **fields)


def _looked_into(driver: Any, loader: Any, shared: str | None) -> dict[str, Any]:
    """Facts that only a loader that is still there can tell, bounded in time."""
    found: dict[str, Any] = {}
    looks: dict[str, Callable[[], Any]] = {
        "sharded": lambda: datasets.sharded(loader),
        "shared_state": lambda: _shared(loader, shared),
    }
    for name, look in looks.items():
        with Attempt(driver.process, f"{name} of a DataLoader"):
            found[name] = look()
    return found


def _shared(loader: Any, found: str | None) -> str:
    if found is None:
        found = sharing.shared_state(loader.dataset)
    if not found and loader.num_workers == 0 and settings.start_method(loader) != "fork":
        found = sharing.unpicklable(
            loader.dataset, collate_fn=loader.collate_fn, worker_init_fn=loader.worker_init_fn
        )
    return found
