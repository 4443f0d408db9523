"""Edits of the call that builds a `DistributedDataParallel`, and of no other."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import worth
from trainperf.fixes.ranks._exchange import (
    AT_MOST_ALL,
    bound_if_hidden,
    exchange_said,
    exchanged_said,
    to_try_on_exchange,
)
from trainperf.fixes.torch_step._source import file_text, model_target
from trainperf.model import Ddp, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.rewrite.arguments import RecordedCall, Wanted, set_argument

CLASS = "DistributedDataParallel"

POSITIONS = {
    "bucket_cap_mb": 7,
    "find_unused_parameters": 8,
    "gradient_as_bucket_view": 10,
    "static_graph": 11,
}
"""Places among the positional arguments of `DistributedDataParallel` (PyTorch 1.13 to 2.13)."""

DEFAULTS: dict[str, object] = {
    "bucket_cap_mb": 25,
    "find_unused_parameters": False,
    "gradient_as_bucket_view": False,
    "static_graph": False,
}
"""Their values where the call leaves them out."""

HOOKS = "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks"

TO_DDP = """\
# torchrun --nproc_per_node {replicas} train.py
import os

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

distributed.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = DistributedDataParallel(model.to(rank), device_ids=[rank])
sampler = DistributedSampler(dataset)  # sampler.set_epoch(epoch) before each epoch
loader = DataLoader(dataset, batch_size={batch}, sampler=sampler)"""
"""A script of one process as one of several ranks; `replicas` and `batch` are to be filled in."""


class DdpSetting(Fix):
    """A setting of `DistributedDataParallel`: part of the exchange goes with another value."""

    category = "sync"
    framework = "torch"
    share = 1.0
    """What of the exchange it may save at most."""
    basis = AT_MOST_ALL

    def models(self, evidence: Evidence) -> tuple[Ddp, ...]:
        """Return the models whose setting is to be another."""
        raise NotImplementedError

    def told(self, evidence: Evidence, models: tuple[Ddp, ...], said: str) -> dict[str, Any]:
        """Return what the finding says beside its price; `said` is of the exchange."""
        raise NotImplementedError

    def bound(self, evidence: Evidence) -> float:
        """Return the speed-up at most; raises `NotMeasured`."""
        return bound_if_hidden(evidence)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find such models, where the exchange takes a real part of the step."""
        if not (models := self.models(evidence)):
            return None
        bound = self.bound(evidence)
        if not worth(evidence, bound):
            return None
        return self._finding(evidence, models, exchange_said(evidence), bound, self.basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it wherever there are such models."""
        if not (models := self.models(evidence)):
            return None
        bound, basis = to_try_on_exchange(evidence, self.share)
        return self._finding(evidence, models, exchanged_said(evidence), bound, basis)

    def _finding(
        self,
        evidence: Evidence,
        models: tuple[Ddp, ...],
        said: str,
        bound: float | None,
        basis: str,
    ) -> Finding:
        told = {"data": ddp_seen(evidence, models), **self.told(evidence, models, said)}
        exact = all(one.where is not None and one.where.exact for one in models)
        where = ddp_sites(models)
        return self.finding(bound=bound, bound_basis=basis, where=where, rewritable=exact, **told)


def ddp_sites(ddps: Sequence[Ddp]) -> tuple[Site, ...]:
    """Return where they are built, each place once."""
    return tuple(dict.fromkeys(one.where for one in ddps if one.where is not None))


def ddp_seen(evidence: Evidence, models: Sequence[Ddp]) -> dict[str, Any]:
    """Return what a finding's data must hold for a setting to be changed where it came from."""
    settings = [one.settings for one in models]
    same = {
        name: value
        for name, value in settings[0].items()
        if name in POSITIONS and all(one.get(name) == value for one in settings)
    }
    return seen_in_call(evidence, **same)


def set_ddp(
    script: Script, site: Site, name: str, value: str, data: Mapping[str, Any] | None = None
) -> None:
    """Give the `DistributedDataParallel` built at `site` another setting, where it came from.

    `data` is the finding's, with what `ddp_seen` says. Raises `CannotRewrite` where the call is
    not of that class, or as `set_argument` does.
    """
    check_ddp(script, site)
    wanted = Wanted(name, value, POSITIONS[name])
    set_argument(script, site, wanted, RecordedCall.of(data, name, DEFAULTS))


def drop_ddp(script: Script, site: Site, name: str, data: Mapping[str, Any] | None = None) -> None:
    """Take `name=True` out of the call at `site`; what stands elsewhere becomes `False`."""
    check_ddp(script, site)
    if script.call_keywords(site).get(name) == "True":
        script.remove_keyword(site, name)
    else:
        set_ddp(script, site, name, "False", data)


def register_hook(script: Script, site: Site, hook: str) -> None:
    """Register one of `default_hooks` for the model that the call at `site` wraps.

    Raises `CannotRewrite` where the wrapped model gets no plain name there, or the file
    registers a hook of its own.
    """
    check_ddp(script, site)
    if "register_comm_hook" in file_text(script, site.file):
        raise CannotRewrite("the file registers a hook of its own")
    name = model_target(script, site)
    hooks = script.free_name(site.file, "default_hooks")
    renamed = "" if hooks == "default_hooks" else f" as {hooks}"
    script.insert_after(site, f"{name}.register_comm_hook(None, {hooks}.{hook})")
    script.insert_after_imports(site.file, HOOKS + renamed)


def check_ddp(script: Script, site: Site) -> None:
    """Raise `CannotRewrite` unless the call at `site` is one of the class itself.

    A subclass or a function of the user's may take its arguments in another order.
    """
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    if name.rpartition(".")[2] not in (CLASS, *_aliases(script.module(site.file))):
        raise CannotRewrite(f"the model is wrapped by {name or 'something'}, not by {CLASS}")


def _aliases(tree: ast.Module) -> set[str]:
    """The other names under which the file imports the class."""
    return {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == CLASS and alias.asname
    }
