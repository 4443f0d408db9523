"""The modules of Keras that are hooked, apart from what hooks them: read at every start."""

from __future__ import annotations

KERAS = "keras.src."
TF_KERAS = "tf_keras.src."

HOOKS = {
    KERAS + "backend.tensorflow.trainer": "hooks.watch_trainer",
    KERAS + "backend.torch.trainer": "hooks.watch_torch_trainer",
    KERAS + "callbacks.callback": "hooks.watch_callback",
    KERAS + "callbacks.callback_list": "hooks.watch_callbacks",
    KERAS + "layers.rnn.rnn": "hooks.watch_rnn",
    KERAS + "models.model": "hooks.watch_calls",
    KERAS + "optimizers.base_optimizer": "hooks.watch_optimizer",
    KERAS + "trainers.data_adapters.py_dataset_adapter": "hooks.watch_pydataset",
    KERAS + "trainers.trainer": "hooks.watch_compile",
}
"""By name: the file and its function that set the hooks of a module of Keras 3."""

LEGACY = {
    TF_KERAS + "callbacks": "watch_callbacks",
    TF_KERAS + "engine.data_adapter": "watch_data",
    TF_KERAS + "engine.training": "watch_model",
    TF_KERAS + "layers.rnn.base_rnn": "watch_rnn",
    TF_KERAS + "optimizers.legacy.optimizer_v2": "watch_old_optimizer",
    TF_KERAS + "optimizers.optimizer": "watch_optimizer",
}
"""By name: the method of `legacy.Legacy` that sets the hooks of a module of `tf_keras`."""
