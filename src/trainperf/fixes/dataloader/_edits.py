"""Settings of a `DataLoader` changed in the call that builds it, or where that takes them from."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.model import Evidence, Site
from trainperf.rewrite import Script
from trainperf.rewrite.arguments import RecordedCall, Wanted, set_argument

POSITIONS = {"num_workers": 5, "pin_memory": 7, "drop_last": 8}
"""Places among the positional arguments of `DataLoader`; all other settings that fixes
change are keyword-only (PyTorch 2.13)."""

DEFAULTS: dict[str, object] = {
    "num_workers": 0,
    "pin_memory": False,
    "persistent_workers": False,
    "prefetch_factor": 2,
    "drop_last": False,
}
"""Values of arguments that are left out; `prefetch_factor` where there are workers."""


def seen_in_run(evidence: Evidence) -> dict[str, Any]:
    """Return what a finding's data must hold for a setting to be changed where it came from.

    Empty where that may also be the setting of a loader which cannot take workers.
    """
    others = [one for one in evidence.torch.loaders if one.role != "training"]
    if any((one.iterable and not one.sharded) or one.shared_state for one in others):
        return {}
    loader = evidence.torch.loader
    arguments: dict[str, object] = {
        "num_workers": loader.workers,
        "pin_memory": loader.pin_memory,
        "persistent_workers": loader.persistent_workers,
    }
    if loader.prefetch_factor is not None:
        arguments["prefetch_factor"] = loader.prefetch_factor
    return seen_in_call(evidence, **arguments)


def set_setting(
    script: Script,
    site: Site,
    name: str,
    value: str,
    data: Mapping[str, Any] | None = None,
    without_workers: str = "",
) -> None:
    """Give the loader built at `site` another setting, where the run had it from.

    `data` is the finding's, with what `seen_in_run` says. `without_workers` is what the setting
    has to be where there are no workers, if it may not be `value` then. Raises `CannotRewrite`
    where the call is not of `DataLoader`, or as `set_argument` does.
    """
    check_call(script, site)
    needs = "num_workers" if without_workers else ""
    wanted = Wanted(name, value, POSITIONS.get(name), needs, without_workers)
    set_argument(script, site, wanted, RecordedCall.of(data, name, DEFAULTS))


def check_call(script: Script, site: Site) -> None:
    """Raise `CannotRewrite` unless the call at `site` is one of `DataLoader` itself.

    A subclass or a function of the user's may take its arguments in another order.
    """
    source = script.source(site.file)
    called = source.call(site).func
    name = source.module.name(called) or ast.unparse(called)
    if name.rpartition(".")[2] != "DataLoader":
        raise CannotRewrite(f"the loader is built by {ast.unparse(called)}, not by DataLoader")
