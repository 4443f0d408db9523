"""The modules that are hooked of PyTorch, and of libraries that train with it.

They stand apart from what hooks them, as they are read at every start.
"""

from __future__ import annotations

HOOKS = {
    "accelerate.accelerator": "watch_trainers",
    "lightning.pytorch.trainer.trainer": "watch_trainers",
    "pytorch_lightning.trainer.trainer": "watch_trainers",
    "torch": "imported",
    "torch._dynamo.callback": "watch_compiling",
    "torch._dynamo.eval_frame": "watch_compile_calls",
    "torch._dynamo.symbolic_convert": "watch_graph_breaks",
    "torch._dynamo.trace_rules": "watch_dynamo",
    "torch._dynamo.utils": "watch_compilations",
    "torch.amp.grad_scaler": "watch_scalers",
    "torch.cuda": "watch_devices",
    "torch.cuda.graphs": "watch_graphs",
    "torch.distributed.distributed_c10d": "watch_processes",
    "torch.nn.modules.module": "watch_modules",
    "torch.nn.parallel.data_parallel": "watch_data_parallel",
    "torch.nn.parallel.distributed": "watch_ddp",
    "torch.optim.lr_scheduler": "watch_schedules",
    "torch.optim.optimizer": "watch_optimizers",
    "torch.serialization": "watch_saves",
    "torch.utils.checkpoint": "watch_checkpoints",
    "torch.utils.data._utils.worker": "watch_workers",
    "torch.utils.data.dataloader": "watch_loaders",
    "transformers.training_args": "watch_trainers",
}
"""By name: the function of `hooks.py` that sets the hooks of a module."""
