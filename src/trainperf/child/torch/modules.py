"""The modules that are hooked of PyTorch, and of libraries that train with it.

They stand apart from what hooks them, as they are read at every start.
"""

from __future__ import annotations

HOOKS = {
    "accelerate.accelerator": "trainers.watch",
    "lightning.pytorch.trainer.trainer": "trainers.watch",
    "pytorch_lightning.trainer.trainer": "trainers.watch",
    "torch": "hooks.imported",
    "torch._dynamo.callback": "hooks.watch_compiling",
    "torch._dynamo.eval_frame": "compiling.watch_calls",
    "torch._dynamo.symbolic_convert": "compiling.watch_breaks",
    "torch._dynamo.trace_rules": "hooks.watch_dynamo",
    "torch._dynamo.utils": "compiling.watch_metrics",
    "torch.amp.grad_scaler": "hooks.watch_scalers",
    "torch.cuda": "hooks.watch_devices",
    "torch.cuda.graphs": "hooks.watch_graphs",
    "torch.distributed.distributed_c10d": "exchange.gradient_sums.watch",
    "torch.nn.modules.module": "hooks.watch_modules",
    "torch.nn.parallel.data_parallel": "exchange.placed.watch_data_parallel",
    "torch.nn.parallel.distributed": "exchange.ddp.watch",
    "torch.optim.lr_scheduler": "hooks.watch_schedules",
    "torch.optim.optimizer": "hooks.watch_optimizers",
    "torch.serialization": "exchange.placed.watch_saves",
    "torch.utils.checkpoint": "built.places.watch_checkpointing",
    "torch.utils.data._utils.worker": "hooks.watch_workers",
    "torch.utils.data.dataloader": "hooks.watch_loaders",
    "transformers.training_args": "trainers.watch",
}
"""By name: the file and its function that set the hooks of a module."""
