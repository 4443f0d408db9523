"""The modules whose writers are redirected, and what is redirected in each."""

from __future__ import annotations

WRITTEN: tuple[str, ...] = ()
READ = ("",)
CHECKPOINT = ("", ".index")
SAVED_MODEL = ("/saved_model.pb", "/saved_model.pbtxt", "/config.json")
Row = tuple[str, int, str, tuple[str, ...]]
"""A function, the place and the name of its argument that is a path, and, where it is read, what
that gets to become the name of a file of it."""

_KERAS: tuple[Row, ...] = (
    ("save_model", 1, "filepath", WRITTEN),
    ("save_weights", 1, "filepath", WRITTEN),
    ("load_model", 0, "filepath", CHECKPOINT),
    ("load_weights", 1, "filepath", CHECKPOINT),
)
ROWS: dict[str, tuple[Row, ...]] = {
    "keras.src.saving.saving_api": _KERAS,
    "tf_keras.src.saving.saving_api": _KERAS,
    "keras.src.models.model": (("Model.export", 1, "filepath", WRITTEN),),
    "safetensors.torch": (
        ("save_file", 1, "filename", WRITTEN),
        ("save_model", 1, "filename", WRITTEN),
        ("load_file", 0, "filename", READ),
        ("load_model", 1, "filename", READ),
    ),
    "tensorboardX.writer": (("FileWriter.__init__", 1, "logdir", WRITTEN),),
    "tensorflow.python.checkpoint.checkpoint": (
        ("TrackableSaver.restore", 1, "save_path", CHECKPOINT),
    ),
    "tensorflow.python.ops.summary_ops_v2": (("create_file_writer_v2", 0, "logdir", WRITTEN),),
    "tensorflow.python.profiler.profiler_v2": (("start", 0, "logdir", WRITTEN),),
    "tensorflow.python.saved_model.load": (("load_partial", 0, "export_dir", SAVED_MODEL),),
    "tensorflow.python.saved_model.save": (("save_and_return_nodes", 1, "export_dir", WRITTEN),),
    "tensorflow.python.training.py_checkpoint_reader": (
        ("NewCheckpointReader", 0, "filepattern", CHECKPOINT),
    ),
    "torch.distributed.checkpoint.filesystem": (  # which are told their folder twice
        ("_FileSystemWriter.__init__", 1, "path", WRITTEN),
        ("_FileSystemWriter.reset", 1, "checkpoint_id", WRITTEN),
        ("FileSystemReader.__init__", 1, "path", READ),
        ("FileSystemReader.reset", 1, "checkpoint_id", READ),
    ),
    "torch.serialization": (("save", 1, "f", WRITTEN), ("load", 0, "f", READ)),
    "torch.utils.tensorboard.writer": (("FileWriter.__init__", 1, "log_dir", WRITTEN),),
}
FILES = {
    "keras.src.callbacks.backup_and_restore": "file_utils",
    "keras.src.callbacks.csv_logger": "file_utils",
    "keras.src.callbacks.model_checkpoint": "file_utils",
    "keras.src.callbacks.tensorboard": "file_utils",
    "tensorflow.python.checkpoint.checkpoint_management": "file_io",
}
"""Modules, with the name by which they use another of file functions."""
OTHERS = {
    "tensorflow.python.checkpoint.checkpoint": "checkpoint",
    "torch.serialization": "moving",
}
"""Modules, with the function of `redirected` that does more in them."""

MODULES = tuple(dict.fromkeys((*ROWS, *FILES, *OTHERS)))
