"""The modules of TensorFlow that are hooked, apart from what hooks them: read at every start."""

from __future__ import annotations

HOOKS = {
    "tensorflow": "imported",
    "tensorflow.python.client.session": "watch_sessions",
    "tensorflow.python.data.ops.dataset_ops": "watch_datasets",
    "tensorflow.python.data.ops.iterator_ops": "watch_iterators",
    "tensorflow.python.distribute.collective_all_reduce_strategy": "watch_workers",
    "tensorflow.python.distribute.distribute_lib": "watch_strategies",
    "tensorflow.python.distribute.input_lib": "watch_distributed",
    "tensorflow.python.distribute.mirrored_strategy": "watch_mirrored",
    "tensorflow.python.eager.backprop": "watch_tapes",
    "tensorflow.python.eager.context": "watch_context",
    "tensorflow.python.eager.polymorphic_function.function_context": "watch_keys",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": "watch_functions",
    "tensorflow.python.framework.func_graph": "watch_tracing",
    "tensorflow.python.ops.resource_variable_ops": "watch_variables",
}
"""By name: the function of `hooks.py` that sets the hooks of a module."""
