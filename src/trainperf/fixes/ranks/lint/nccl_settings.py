"""Ways between GPUs that the script switches off."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.module import Module
from trainperf.source.rule import Rule
from trainperf.source.statements import variables

_SWITCHES = {
    "NCCL_P2P_DISABLE": "NVLink and PCIe",
    "NCCL_SHM_DISABLE": "shared memory",
    "NCCL_IB_DISABLE": "InfiniBand",
}


class NcclSettings(Rule):
    """`NCCL_P2P_DISABLE`, `NCCL_SHM_DISABLE` or `NCCL_IB_DISABLE` set to 1, or a traced NCCL."""

    words = ("NCCL_",)

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for node, name, value in variables(module):
            if name in _SWITCHES and value == "1":
                yield (
                    node,
                    (
                        f"{name} is 1: NCCL may not use {_SWITCHES[name]}, and the exchange of "
                        "gradients may be slower by what is left"
                    ),
                )
            elif name == "NCCL_DEBUG" and value.upper() == "TRACE":
                yield (
                    node,
                    "NCCL_DEBUG is TRACE: NCCL writes lines for every call, which may slow it",
                )
