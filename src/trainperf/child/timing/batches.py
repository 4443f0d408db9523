"""The drivers' questions to batches and iterators, whatever the framework."""

from __future__ import annotations

from typing import Any


def dataset_of(iterator: Any) -> Any:
    """The dataset or loader an iterator was made from, or None."""
    found = getattr(iterator, "_trainperf_dataset", None)
    return found if found is not None else getattr(iterator, "_dataset", None)


def same_dataset(one: Any, other: Any) -> bool:
    """Whether two datasets are the same object, or built by the same call."""
    if one is other:
        return True
    site = getattr(one, "_trainperf_site", None)
    return site is not None and site == getattr(other, "_trainperf_site", None)


def undistributed(dataset: Any) -> Any:
    """The user's own dataset in one that a strategy made of it; here, the dataset itself."""
    return dataset


def fresh(batch: Any) -> Any:
    """The batch in new containers, so that a loop may take them apart; tensors shared."""
    if isinstance(batch, dict):
        return type(batch)((key, fresh(value)) for key, value in batch.items())
    if isinstance(batch, list):
        return [fresh(value) for value in batch]
    if type(batch) is tuple:
        return tuple(fresh(value) for value in batch)
    return batch
