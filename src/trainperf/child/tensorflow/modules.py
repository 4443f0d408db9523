"""The modules of TensorFlow that are hooked, apart from what hooks them: read at every start."""

from __future__ import annotations

HOOKS = {
    "tensorflow": "hooks.imported",
    "tensorflow.python.client.session": "hooks.watch_sessions",
    "tensorflow.python.data.ops.dataset_ops": "hooks.watch_datasets",
    "tensorflow.python.data.ops.iterator_ops": "hooks.watch_iterators",
    "tensorflow.python.distribute.collective_all_reduce_strategy": "strategies.hooks.watch_workers",
    "tensorflow.python.distribute.distribute_lib": "strategies.hooks.watch_strategies",
    "tensorflow.python.distribute.input_lib": "hooks.watch_distributed",
    "tensorflow.python.distribute.mirrored_strategy": "strategies.hooks.watch_mirrored",
    "tensorflow.python.eager.backprop": "hooks.watch_tapes",
    "tensorflow.python.eager.context": "hooks.watch_context",
    "tensorflow.python.eager.polymorphic_function.function_context": "hooks.watch_keys",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": "hooks.watch_functions",
    "tensorflow.python.framework.func_graph": "hooks.watch_tracing",
    "tensorflow.python.ops.resource_variable_ops": "hooks.watch_variables",
}
"""By name: the file and its function that set the hooks of a module."""
