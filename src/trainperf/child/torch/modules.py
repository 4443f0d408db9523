"""The modules of PyTorch that are hooked, apart from what hooks them: read at every start."""

from __future__ import annotations

HOOKS = {
    "torch": "imported",
    "torch._dynamo.callback": "watch_compiling",
    "torch._dynamo.trace_rules": "watch_dynamo",
    "torch.amp.grad_scaler": "watch_scalers",
    "torch.cuda": "watch_devices",
    "torch.cuda.graphs": "watch_graphs",
    "torch.distributed.distributed_c10d": "watch_processes",
    "torch.distributed.fsdp._fully_shard._fully_shard": "watch_fully_shard",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "watch_fsdp",
    "torch.nn.modules.module": "watch_modules",
    "torch.nn.parallel.data_parallel": "watch_data_parallel",
    "torch.nn.parallel.distributed": "watch_ddp",
    "torch.optim.optimizer": "watch_optimizers",
    "torch.serialization": "watch_saves",
    "torch.utils.checkpoint": "watch_checkpoints",
    "torch.utils.data._utils.worker": "watch_workers",
    "torch.utils.data.dataloader": "watch_loaders",
}
"""By name: the function of `hooks.py` that sets the hooks of a module."""
