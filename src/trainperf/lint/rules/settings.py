"""Settings that slow training down: what they do and how they are written, one row a fix."""

from __future__ import annotations

from trainperf.lint.rule import Argument, Assignment, Variable, row
from trainperf.source.loops import DDP, LOADER

_FEW = range(1, 11)  # batches between two writes: a callback works in nearly each
_EAGERLY = "tensorflow.config.run_functions_eagerly"
_FLOATX = ("keras.backend.set_floatx", "keras.config.set_floatx")
_LSTM = ("keras.layers.LSTM", "keras.layers.GRU")
_RECURRENT = (*_LSTM, "keras.layers.SimpleRNN", "keras.layers.RNN")
_DOUBLE = tuple(f"torch.{name}"
                for name in ("float64", "double", "DoubleTensor", "cuda.DoubleTensor"))  # fmt: skip
_OPTIMIZERS = ("torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD", "torch.optim.Adagrad")
_FUSED = ("fused", "differentiable")
_SEEDED = ("determinis", "reproduc", "seed")
_MODULES = ("os", "multiprocessing", "torch.multiprocessing", "psutil")
_COUNTS = tuple(f"{module}.cpu_count" for module in _MODULES)

ROWS = (
    row(
        "float64_input",
        '`set_floatx("float64")` of Keras.',
        "float64 may take twice as long as float32 on a CPU, and far longer on most GPUs",
        Argument(_FLOATX, "floatx", 0, ("float64",)),
    ),
    row(
        "keras_callback_per_batch",
        "`ModelCheckpoint` or `TensorBoard` that writes after every batch, or every ten or fewer.",
        "what is written so often may take longer than the training, which waits for it",
        Argument(("keras.callbacks.ModelCheckpoint",), "save_freq", None, _FEW),
        Argument(("keras.callbacks.TensorBoard",), "update_freq", None, ("batch", *_FEW)),
    ),
    row(
        "keras_run_eagerly",
        "`compile(run_eagerly=True)`, `model.run_eagerly = True`, `run_functions_eagerly(True)`.",
        "Python runs each operation by itself, which may take several times as long as compiled",
        Argument((".compile",), "run_eagerly", None, (True,), repair="False"),
        Assignment(".run_eagerly", True, repair="False"),
        Argument((_EAGERLY,), "run_eagerly", 0, (True,), repair="False"),
    ),
    row(
        "nccl_settings",
        "`NCCL_P2P_DISABLE`, `NCCL_SHM_DISABLE` or `NCCL_IB_DISABLE` set to 1, a traced NCCL, "
        "`NCCL_NET=Socket`, `FI_PROVIDER=tcp` or `NCCL_P2P_LEVEL=LOC`.",
        "a link is not used, or a line is written for each call: exchanges may take longer",
        *(Variable(f"NCCL_{link}_DISABLE", "1") for link in ("P2P", "SHM", "IB")),
        Variable("NCCL_DEBUG", "TRACE"),
        Variable("NCCL_NET", "Socket"),
        Variable("NCCL_P2P_LEVEL", "LOC"),
        Variable("FI_PROVIDER", "tcp"),
    ),
    row(
        "rnn_cell_wrapped",
        "`RNN(LSTMCell(…))` or `RNN(GRUCell(…))` of Keras.",
        "a loop over the time steps; LSTM and GRU use cuDNN on a GPU, which may be far faster",
        Argument(("keras.layers.RNN",), "cell", 0, tuple(f"{layer}Cell" for layer in _LSTM)),
    ),
    row(
        "rnn_cudnn",
        "`LSTM` or `GRU` of Keras with an argument that cuDNN does not support.",
        "cuDNN cannot be used; a loop over the time steps may take many times as long on a GPU",
        *(
            Argument(_LSTM, name, position, (value,), other=True, unless=("use_cudnn",))
            for name, position, value in (
                ("activation", 1, "tanh"),
                ("recurrent_activation", 2, "sigmoid"),
                ("use_bias", 3, True),
                ("recurrent_dropout", None, 0),
                ("reset_after", None, True),
            )
        ),
    ),
    row(
        "rnn_unroll",
        "`LSTM`, `GRU`, `SimpleRNN` or `RNN` of Keras with `unroll=True`.",
        "the graph has a copy of the cell for each time step: long sequences may take minutes to "
        "compile, and cuDNN cannot be used",
        Argument(_RECURRENT, "unroll", None, (True,), repair="False"),
    ),
    row(
        "tf_intra_op_threads",
        "`TF_NUM_INTRAOP_THREADS` set to 1 by the script itself.",
        "each operation runs on one core: the others may be idle where the CPU trains",
        Variable("TF_NUM_INTRAOP_THREADS", "1"),
    ),
    row(
        "torch_cudnn_benchmark",
        "`cudnn.benchmark = False` in a file that does not ask to be repeatable.",
        "cuDNN does not try which convolution is fastest; images of one size may gain by True",
        Assignment("torch.backends.cudnn.benchmark", False, repair="True", unless=_SEEDED),
    ),
    row(
        "torch_ddp_unused_parameters",
        "`DistributedDataParallel(find_unused_parameters=True)`.",
        "DDP walks over the graph in each step, which may be in vain if all parameters are used",
        Argument((DDP,), "find_unused_parameters", None, (True,), unless=("static_graph",)),
    ),
    row(
        "torch_debug_modes",
        "`set_detect_anomaly(True)`.",
        "Python walks its stack at every operation and every gradient is searched for NaN, which "
        "may take several times as long as the step",
        Argument(("torch.autograd.set_detect_anomaly",), "mode", 0, (True,)),
    ),
    row(
        "torch_debug_modes",
        "`use_deterministic_algorithms(True)` in a file that trains.",
        "the fastest kernels of a GPU may be left out; it can go where runs need not repeat bit "
        "for bit",
        Argument(("torch.use_deterministic_algorithms",), "mode", 0, (True,), training=True),
    ),
    row(
        "torch_float64",
        "`set_default_dtype(torch.float64)` in a file that trains.",
        "the model may run at half the speed of float32 on a CPU, and far below on most GPUs",
        Argument(("torch.set_default_dtype",), "d", 0, _DOUBLE, training=True),
        Argument(("torch.set_default_tensor_type",), "t", 0, _DOUBLE, training=True),
    ),
    row(
        "torch_fused_optimizer",
        "An optimizer with `foreach=False` that could be fused.",
        "the optimizer walks over the weights tensor by tensor, with several kernels for each, "
        "which may take longer than one fused update",
        Argument(_OPTIMIZERS, "foreach", None, (False,), repair="fused=True", unless=_FUSED),
    ),
    row(
        "torch_launch_blocking",
        '`os.environ["CUDA_LAUNCH_BLOCKING"] = "1"`.',
        "Python waits for each kernel to end before it starts the next, and the GPU may stand idle "
        "in between",
        Variable("CUDA_LAUNCH_BLOCKING", "1"),
    ),
    row(
        "torch_matmul_precision",
        '`set_float32_matmul_precision("highest")` or `allow_tf32 = False`.',
        "from Ampere on, matrix products of float32 may be several times as fast in TF32, with "
        "less precise factors",
        Argument(("torch.set_float32_matmul_precision",), "precision", 0, ("highest",)),
        Assignment("torch.backends.cuda.matmul.allow_tf32", False),
    ),
    row(
        "torch_too_many_workers",
        "A `DataLoader` with `num_workers=os.cpu_count()`.",
        "that counts the cores of the host, not those of the container or of this rank: too many "
        "workers may take the cores from each other and from the training",
        Argument((LOADER,), "num_workers", 5, _COUNTS),
    ),
    row(
        "torch_zero_grad",
        "`zero_grad(set_to_none=False)`.",
        "zeros are written into every gradient, and the backward adds to them: both may take time "
        "that the default does not",
        Argument((".zero_grad",), "set_to_none", 0, (False,), repair="True"),
    ),
)
