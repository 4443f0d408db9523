"""One name for what frameworks offer under several."""

from __future__ import annotations

_PREFIXES = (
    ("tensorflow.compat.v2.", "tensorflow."),
    ("tensorflow.keras.", "keras."),
    ("tensorflow.python.keras.", "keras."),
    ("tf_keras.", "keras."),
    ("keras.api.", "keras."),
    ("keras.layers.recurrent.", "keras.layers."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parallel.data_parallel.", "torch.nn."),
    ("torch.optim.adam.", "torch.optim."),
    ("lightning.pytorch.", "lightning."),
    ("pytorch_lightning.", "lightning."),
)
_WHOLE = {
    "tensorflow.keras": "keras",
    "tf_keras": "keras",
    "lightning.pytorch": "lightning",
    "pytorch_lightning": "lightning",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.autograd.anomaly_mode.set_detect_anomaly": "torch.autograd.set_detect_anomaly",
}


def canonical(name: str) -> str:
    """Return the name by which the rules know what `name` stands for."""
    for prefix, short in _PREFIXES:
        if name.startswith(prefix):
            name = short + name[len(prefix) :]
    return _WHOLE.get(name, name)
