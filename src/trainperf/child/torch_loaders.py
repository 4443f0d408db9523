"""Which `DataLoader`s a program builds, where, and how; and what is told of each place."""

from __future__ import annotations

import ast
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from . import frames, torch_datasets, torch_sharing
from .patching import replace

LIVE = 16
"""Of one place so many loaders are kept in sight, the latest ones."""


class Place:
    """What is known of the loaders that one call of the user's built.

    `direct` says that the call is that of the loader's class; a library built it
    otherwise, and the call (`trainer.fit(…)`) takes none of a loader's keywords.
    """

    def __init__(self, where: dict[str, Any] | None, direct: bool) -> None:
        self.where = where
        self.direct = direct
        self.keywords = _written_out(where) if where is not None and direct else frozenset()
        self.built = 0
        self.iterated = False
        self.settings: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        self.dataset: tuple[int, type] | None = None
        self.shared_state: str | None = None
        self.references: list[weakref.ref[Any]] = []

    def took(self, loader: Any) -> None:
        """Count a loader that was built here."""
        self.built += 1
        self.dataset = id(loader.dataset), type(loader.dataset)
        self.settings = _settings(loader)
        self.references = [one for one in self.references[1 - LIVE :] if one() is not None]
        self.references.append(weakref.ref(loader))

    def loader(self) -> Any:
        """The latest loader of this place that is still there, or None."""
        found = [one for reference in self.references if (one := reference()) is not None]
        return found[-1] if found else None


def watch(loops: Any, module: Any) -> None:
    """Note where loaders are built and which are iterated; `module` is torch's `dataloader`.

    Each loader gets `_trainperf_site` (a site or None) and `_trainperf_given` (the
    keywords written out in the call, plain values); `loops.loaders_built` counts the
    loaders by place.
    """
    loops.loader_places = {}

    def make_init(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            if loops.observer.off:
                return
            try:
                _built(loops, self, kwargs, sys._getframe(1))
            except Exception as error:
                loops.observer.failed("where a DataLoader is built", error)

        return __init__

    def make_get(original: Any) -> Any:
        def _get_iterator(self: Any) -> Any:
            if not loops.observer.off:
                try:
                    _iterated(loops, self)
                except Exception as error:
                    loops.observer.failed("which DataLoader is iterated", error)
            return original(self)

        return _get_iterator

    replace(module.DataLoader, "__init__", make_init)
    replace(module.DataLoader, "_get_iterator", make_get)


def key_of(where: dict[str, Any] | None) -> tuple[Any, ...] | None:
    """What a place goes by: file, line and column."""
    return None if where is None else (where["file"], where["line"], where.get("col"))


def _built(loops: Any, loader: Any, kwargs: dict[str, Any], caller: FrameType) -> None:
    frame, _ = frames.users_frame()
    where = frames.site(frame)
    key = key_of(where)
    if key not in loops.loader_places:
        loops.loader_places[key] = Place(where, _is_direct(loader, caller, frame))
    place = loops.loader_places[key]
    given = {name: _plain(value) for name, value in kwargs.items() if name in place.keywords}
    # Past `__setattr__`, which subclasses may have made their own.
    loader.__dict__.update(_trainperf_site=where, _trainperf_given=given)
    place.given = given
    place.took(loader)
    loops.loaders_built[key] = place.built


def _iterated(loops: Any, loader: Any) -> None:
    place = loops.loader_places.get(key_of(getattr(loader, "_trainperf_site", None)))
    if place is None or place.iterated:
        return
    place.iterated = True
    place.settings["batches"] = _batches(loader)
    # Before any item was made: what a dataset opens when first asked, each worker opens.
    place.shared_state = torch_sharing.shared_state(loader.dataset)


def _is_direct(loader: Any, caller: FrameType | None, users: FrameType | None) -> bool:
    """Whether all that stands between the user's call and the loader constructs the loader."""
    while caller is not None and caller is not users:
        code = caller.f_code
        if not code.co_argcount or caller.f_locals.get(code.co_varnames[0]) is not loader:
            return False
        caller = caller.f_back
    return users is not None


def _written_out(where: dict[str, Any]) -> frozenset[str]:
    """The names of the keywords that stand in a call; those in `**settings` do not."""
    source = "".join(frames._lines(where["file"]))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or node.lineno != where["line"]:
            continue
        column = frames._characters(where["file"], node.lineno, node.col_offset)
        if column == where.get("col") and node.end_lineno == where.get("end_line"):
            end = frames._characters(where["file"], node.end_lineno or 0, node.end_col_offset or 0)
            if end == where.get("end_col"):
                return frozenset(word.arg for word in node.keywords if word.arg is not None)
    return frozenset()


def _plain(value: Any) -> Any:
    """A value as JSON has it; of what it has not, the name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__qualname__", None) or type(value).__qualname__


# ------------------------------------------------------------------ what is recorded


def record(driver: Any) -> None:
    """Record an event `torch_loader` for each place where loaders were built.

    What timing the stages found (`driver.loader_facts`) goes with the loader of the
    training loop, which comes first; a step may take batches from others beside it.
    """
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
        fields |= _settings(loader) | {"batches": _batches(loader)}
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
    """What only a loader that is still there can tell, bounded in time."""
    found: dict[str, Any] = {}
    looks: dict[str, Callable[[], Any]] = {
        "sharded": lambda: torch_datasets.sharded(loader),
        "shared_state": lambda: _shared(loader, shared),
    }
    for name, look in looks.items():
        try:
            found[name] = look()
        except Exception as error:
            driver.observer.failed(f"{name} of a DataLoader", error)
    return found


def _shared(loader: Any, found: str | None) -> str:
    if found is None:
        found = torch_sharing.shared_state(loader.dataset)
    if not found and loader.num_workers == 0 and start_method(loader) != "fork":
        found = torch_sharing.unpicklable(
            loader.dataset, collate_fn=loader.collate_fn, worker_init_fn=loader.worker_init_fn
        )
    return found


def _settings(loader: Any) -> dict[str, Any]:
    """What a loader's constructor left, cheap to read."""
    sampler = sampler_of(loader)
    head = torch_datasets.users_item(loader.dataset)
    return {
        "dataset": type(loader.dataset).__qualname__,
        "item": frames.definition(head) if head is not None else None,
        "iterable": is_iterable(loader),
        "batch_size": batch_size(loader),
        "workers": int(loader.num_workers),
        "pin_memory": bool(loader.pin_memory),
        "persistent_workers": bool(loader.persistent_workers),
        "prefetch_factor": loader.prefetch_factor,
        "start_method": start_method(loader),
        "shuffled": _is_shuffled(sampler),
        "drop_last": bool(loader.drop_last or getattr(loader.batch_sampler, "drop_last", False)),
        "worker_init": loader.worker_init_fn is not None,
        "sampler": type(sampler).__name__,
    }


def is_iterable(loader: Any) -> bool:
    """Whether the loader's dataset is iterated rather than indexed."""
    return int(getattr(loader, "_dataset_kind", 0)) == 1


def sampler_of(loader: Any) -> Any:
    """The sampler that gives the order: a batch sampler of the user's own, or what it draws on."""
    own = loader.batch_sampler
    if own is not None and type(own).__name__ != "BatchSampler":
        return own
    return getattr(own, "sampler", loader.sampler)


def batch_size(loader: Any) -> int | None:
    """Samples of a batch, None where only the batches themselves can say."""
    size = loader.batch_size
    if size is None:
        size = getattr(loader.batch_sampler, "batch_size", None)
    return int(size) if isinstance(size, int) else None


def start_method(loader: Any) -> str:
    """How workers are, or would be, started; asking does not decide it for the program."""
    context = loader.multiprocessing_context
    if context is not None:
        return str(context.get_start_method())
    multiprocessing: Any = sys.modules["multiprocessing"]
    chosen = multiprocessing.get_start_method(allow_none=True)
    return str(chosen or multiprocessing.get_all_start_methods()[0])  # the first is the default


def _is_shuffled(sampler: Any) -> bool:
    if "Random" in type(sampler).__name__:
        return True
    shuffle = getattr(sampler, "shuffle", False)
    return isinstance(shuffle, bool) and shuffle


def _batches(loader: Any) -> int | None:
    """The loader's length; `len(loader)` itself would have it warn about longer epochs."""
    try:
        if not is_iterable(loader):
            return len(loader._index_sampler)
        length, size = len(loader.dataset), int(loader.batch_size or 1)
        return length // size if loader.drop_last else -(-length // size)
    except Exception:  # no length, or one of the user's that fails: it has none
        return None
