"""The cases of `gpu_ecc`."""

from __future__ import annotations

from fixes.cases.gpu._cases import on_gpu

silent = [
    on_gpu(),
    # the driver does not say, or the card has no ECC
    on_gpu(gpu={"ecc_errors": None}),
]

fires = [on_gpu(gpu={"ecc_errors": 1}), on_gpu(gpu={"ecc_errors": 12})]
