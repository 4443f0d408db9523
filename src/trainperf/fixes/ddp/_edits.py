"""Edits of the call that builds a `DistributedDataParallel`, and of no other."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step._source import file_text, model_target

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

CLASS = "DistributedDataParallel"
MODULE = "torch.nn.parallel"

POSITIONS = {
    "bucket_cap_mb": 7,
    "find_unused_parameters": 8,
    "gradient_as_bucket_view": 10,
    "static_graph": 11,
}
"""Places among the positional arguments of `DistributedDataParallel` (PyTorch 1.13 to 2.13)."""

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


def set_ddp(script: Script, site: Site, name: str, value: str) -> None:
    """Give the `DistributedDataParallel` built at `site` another setting.

    Raises `CannotRewrite` where the call is not of that class, or where the setting
    comes from somewhere else (an argument of the script, a variable).
    """
    check_ddp(script, site)
    old = _written(script, site, name)
    if old is not None and not _literal(old):
        raise CannotRewrite(f"{name} is {old}: make that {value} where it is chosen")
    script.set_keyword(site, name, value, position=POSITIONS[name])


def drop_ddp(script: Script, site: Site, name: str) -> None:
    """Take `name=True` out of the call at `site`; given by its place it becomes `False`."""
    check_ddp(script, site)
    old = _written(script, site, name)
    if old != "True":
        raise CannotRewrite(f"{name} is not written out as True where the model is wrapped")
    if name in script.call_keywords(site):
        script.remove_keyword(site, name)
    else:
        script.replace_argument(site, POSITIONS[name], "False")


def register_hook(script: Script, site: Site, hook: str) -> None:
    """Register one of `default_hooks` for the model that the call at `site` wraps.

    Raises `CannotRewrite` where the wrapped model gets no plain name there, or the file
    registers a hook of its own.
    """
    check_ddp(script, site)
    if "register_comm_hook" in file_text(script, site.file):
        raise CannotRewrite("the file registers a hook of its own")
    name = model_target(script, site)
    if "default_hooks" in _other_names(script.module(site.file)):
        raise CannotRewrite("the file has something else named default_hooks")
    script.insert_after(site, f"{name}.register_comm_hook(None, default_hooks.{hook})")
    script.insert_after_imports(site.file, HOOKS)


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


def _other_names(tree: ast.Module) -> set[str]:
    """Names that the file binds other than by importing PyTorch's hooks."""
    names = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            of_torch = isinstance(node, ast.ImportFrom) and ".ddp_comm_hooks" in (node.module or "")
            names |= {alias.asname or alias.name for alias in node.names if not of_torch}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def _written(script: Script, site: Site, name: str) -> str | None:
    argument = script.argument(site, POSITIONS[name], name)
    return None if argument is None else script.expression(argument)


def _literal(text: str) -> bool:
    try:
        ast.literal_eval(f"({text})")
    except (ValueError, TypeError, SyntaxError):
        return False
    return True
