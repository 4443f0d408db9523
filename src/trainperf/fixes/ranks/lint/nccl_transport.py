"""Slow ways of NCCL chosen by the script."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module
from trainperf.source.rule import Rule
from trainperf.source.statements import variables

_SLOW = {"NCCL_NET": "socket", "FI_PROVIDER": "tcp", "NCCL_P2P_LEVEL": "loc"}


class NcclTransport(Rule):
    """`NCCL_NET=Socket`, `FI_PROVIDER=tcp` or `NCCL_P2P_LEVEL=LOC` set by the script."""

    words = ("NCCL_", "FI_PROVIDER")

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for node, name, value in variables(module):
            if _SLOW.get(name) == value.lower():
                yield (
                    node,
                    (
                        f"{name} is {value}: NCCL is kept from quicker ways between hosts or GPUs "
                        "where there are any, and the exchange of gradients may take longer"
                    ),
                )
