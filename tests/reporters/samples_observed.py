"""Diagnoses without trials, as they come."""

from __future__ import annotations

from dataclasses import replace

from trainperf.model import (
    BetweenEpochs,
    CallbackCost,
    Device,
    Diagnosis,
    Ending,
    Equivalence,
    Finding,
    Framework,
    Function,
    FunctionCost,
    Gpu,
    Loop,
    Machine,
    NotTaken,
    Overhead,
    Patch,
    PhaseUse,
    ReportedStage,
    ReportedTimes,
    Site,
    StartUp,
    Verdict,
)

GIB = 1024**3
CWD = "/home/ada/flowers"

CPU_BOX = Machine(
    hostname="box",
    os="Linux 6.1",
    python="3.12.3",
    cpu_model="AMD EPYC 7R13",
    visible_cores=64,
    affinity_cores=64,
    quota_cores=8.0,
    cores=8.0,
    memory_total=32 * GIB,
    memory_limit=16 * GIB,
    memory_available=11 * GIB,
    gpu_reason="libnvidia-ml.so.1 is not on this machine",
)

GPU_BOX = replace(
    CPU_BOX,
    gpus=(
        Gpu(0, "NVIDIA A10G", memory_total=int(22.5 * GIB), compute_capability="8.6"),
        Gpu(1, "NVIDIA A10G", memory_total=int(22.5 * GIB), compute_capability="8.6"),
    ),
    gpu_reason="",
    cores=48.0,
    visible_cores=48,
    affinity_cores=48,
    quota_cores=None,
    driver="570.86.10",
    driver_cuda="12.8",
)

DECODE = Site(f"{CWD}/train.py", 31, "make_dataset", col=9, end_line=31, end_col=29)
READ = Site(f"{CWD}/train.py", 29, "make_dataset", col=9, end_line=29, end_col=60)
FIT = Site(f"{CWD}/train.py", 58, "main", col=4, end_line=58, end_col=70)

PARALLEL_MAP = Finding(
    id="tf_map_parallel",
    category="input",
    title="Run `map(load_image)` on several cores",
    text="`load_image` runs on one core and takes 93.1 ms of each 138 ms step. Its output is "
    "wanted in order, and it draws random numbers, so tf.data does not parallelise it by "
    "itself. 1.1 of 8 cores were busy.",
    bound=3.2,
    bound_basis="138 ms as it is, 43.2 ms with its data already there",
    equivalence=Equivalence.NUMERICS,
    where=(DECODE,),
    advice="Give `map` as many cores as tf.data finds useful. Keep `deterministic=True` if "
    "the order of the samples matters.",
    snippet="ds = ds.map(load_image, num_parallel_calls=tf.data.AUTOTUNE)",
    rewritable=True,
)

CACHE = Finding(
    id="tf_cache",
    category="input",
    title="Keep the decoded images in memory",
    text="The same 3,670 files are read and decoded in every epoch. Decoded they take 2.1 GiB; "
    "11.0 GiB are free.",
    bound=3.1,
    bound_basis="as if reading and decoding were free, from the second epoch on",
    equivalence=Equivalence.EXACT,
    where=(DECODE, READ),
    advice="Split decoding from augmentation and cache in between, so that the random part "
    "stays random.",
    snippet="""
        ds = ds.map(decode_image, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.cache()
        ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    """,
)

EARLY_STOPPING = Finding(
    id="early_stopping",
    category="practice",
    title="Stop when the validation loss no longer falls",
    text="`fit` runs 50 epochs with validation data and without early stopping.",
    bound=None,
    bound_basis="",
    equivalence=Equivalence.SEMANTICS,
    where=(FIT,),
    advice="Add `keras.callbacks.EarlyStopping`.",
    snippet="callbacks=[keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True)]",
)

DIFF = """--- a/train.py
+++ b/train.py
@@ -31,1 +31,1 @@
-    ds = ds.map(load_image)
+    ds = ds.map(load_image, num_parallel_calls=tf.data.AUTOTUNE)
"""

INPUT_BOUND = Diagnosis(
    format_version=1,
    trainperf_version="0.1.0",
    created="2026-11-21T06:50:00Z",
    script="train.py",
    command=("python", "train.py", "--epochs", "50"),
    cwd=CWD,
    ending=Ending.MEASURED,
    framework=Framework("tensorflow", "2.21.0", keras="3.15.1", built_with_cuda=False),
    device=Device("CPU", "AMD EPYC 7R13", 1),
    machine=CPU_BOX,
    loop=Loop(
        "fit",
        where=FIT,
        batch_size=32,
        batch_bytes=32 * 180 * 180 * 3 * 4,
        batch_dtypes=("float32", "int64"),
        epochs=50,
        epoch_steps=92,
        input_kind="tf.data",
        has_validation=True,
    ),
    verdict=Verdict(
        "input",
        "Input-bound: the step could run 3.2 times as fast if data were free; 68 % of each "
        "step waits for `load_image`, train.py:14.",
        utilization=0.313,
    ),
    times=ReportedTimes(
        real_s=0.138,
        resident_s=0.0432,
        input_s=0.0951,
        host_s=0.00121,
        steps=96,
        samples_per_s=231.9,
        startup_s=6.31,
        noise=0.021,
        spread={"real": (0.137, 0.139, 0.138), "resident": (0.0431, 0.0433)},
    ),
    startup=StartUp(
        6.31, imports_s=2.12, setup_s=1.4, tracing_s=1.31, first_step_s=2.79, warm_up_steps=12
    ),
    between_epochs=BetweenEpochs(
        2.04, 2, epoch_steps=92, validation_s=1.61, callbacks_s=0.0021, restart_s=0.31
    ),
    stages=(
        ReportedStage("from_tensor_slices", READ, 0.000021, 0.0002),
        ReportedStage("shuffle", Site(f"{CWD}/train.py", 30), 0.00042, 0.004, detail="buffer 3670"),
        ReportedStage(
            "map",
            DECODE,
            0.0931,
            0.979,
            function=Function("load_image", f"{CWD}/train.py", 14),
            detail="serial, random",
        ),
        ReportedStage("batch", Site(f"{CWD}/train.py", 32), 0.0015, 0.016, detail="32"),
        ReportedStage("prefetch", None, None, None, detail="by Keras"),
    ),
    callbacks=(
        CallbackCost("History", 0.0000012, 96, epoch_s=0.0003, builtin=True),
        CallbackCost("ProgbarLogger", 0.0000812, 96, builtin=True),
    ),
    functions=(
        FunctionCost("load_image", f"{CWD}/train.py", 17, 0.61, "worker", 410, "PIL.Image.open"),
        FunctionCost("main", f"{CWD}/train.py", 58, 0.004, "main", 2),
    ),
    utilization=(
        PhaseUse("real", 24, cpu_cores=1.12, rss_peak=int(1.4 * GIB), read_bytes_s=11.2 * 1024**2),
        PhaseUse("resident", 12, cpu_cores=6.9),
    ),
    findings=(PARALLEL_MAP, CACHE),
    practices=(EARLY_STOPPING,),
    trials=(),
    trying=None,
    stack=None,
    control=None,
    overhead=Overhead(None, None, observing_s=17.42, trying_s=0.0),
    patch=Patch(
        DIFF,
        ("tf_map_parallel",),
        skipped=(NotTaken("tf_cache", "decoding and augmentation stand in one function"),),
    ),
    not_measured=(
        NotTaken("GPU use", "libnvidia-ml.so.1 is not on this machine"),
        NotTaken("prefetch stage", "Keras added it; it has no cost of its own"),
    ),
    notes=(
        "Checkpoints were written to the run's own folder, which is removed.",
        "Other programs kept 1.8 cores busy meanwhile.",
    ),
    seconds=17.42,
)

HEALTHY = replace(
    INPUT_BOUND,
    verdict=Verdict(
        "none",
        "Healthy: 98 % of each step is the model at work; nothing worth repairing was found.",
        utilization=0.984,
        healthy=True,
    ),
    times=replace(
        INPUT_BOUND.times, real_s=0.0641, resident_s=0.0631, input_s=0.0049, samples_per_s=499.2
    ),
    between_epochs=None,
    functions=(),
    utilization=(),
    findings=(),
    practices=(),
    overhead=None,
    patch=None,
    not_measured=(),
    notes=(),
    seconds=12.1,
)

FAILED = replace(
    HEALTHY,
    ending=Ending.FAILED,
    device=Device("", "", 0),
    loop=None,
    verdict=Verdict("none", "No verdict: no step was seen."),
    times=ReportedTimes(None, None, None, None, 0, None, None, None),
    startup=None,
    stages=(),
    callbacks=(),
    not_measured=(
        NotTaken("the three times", "the script ended before its first step"),
        NotTaken("GPU use", "libnvidia-ml.so.1 is not on this machine"),
    ),
    seconds=3.9,
    output_tail="""Found 3670 files belonging to 5 classes.
Traceback (most recent call last):
  File "/home/ada/flowers/train.py", line 58, in <module>
    main()
  File "/home/ada/flowers/train.py", line 44, in main
    model = build(num_clases=5)
            ^^^^^^^^^^^^^^^^^^^
TypeError: build() got an unexpected keyword argument 'num_clases'
""",
)

XLA = Finding(
    id="keras_xla",
    category="model",
    title="Compile the step with XLA",
    text='`jit_compile` is "auto", and Keras turned XLA off because the model runs under '
    "MirroredStrategy. In alternating blocks of 8 steps the compiled step took 121 ms against "
    "154 ms.",
    bound=1.27,
    bound_basis="probe: 1.22× to 1.31×",
    equivalence=Equivalence.NUMERICS,
    where=(Site(f"{CWD}/models/resnet.py", 88, "build", col=4, end_line=90, end_col=5),),
    advice="Ask for XLA by name.",
    snippet='model.compile(\n    optimizer,\n    loss="sparse_categorical_crossentropy",\n'
    '    jit_compile=True,  # was "auto"\n)',
    rewritable=True,
)

GPU_MODE = Finding(
    id="tf_gpu_thread_mode",
    category="environment",
    title="Give the GPU launch threads of their own",
    text="Kernel launches wait for the same threads as tf.data.",
    bound=1.04,
    bound_basis="share of the step without a kernel running",
    equivalence=Equivalence.ENVIRONMENT,
    snippet="export TF_GPU_THREAD_MODE=gpu_private\nexport TF_GPU_THREAD_COUNT=2",
    advice="Set before the script starts:",
)

TWO_GPUS = replace(
    INPUT_BOUND,
    script="train_ddp.py",
    framework=Framework("tensorflow", "2.21.0", keras="3.15.1", built_with_cuda=True),
    device=Device("GPU", "NVIDIA A10G", 2),
    machine=GPU_BOX,
    loop=Loop(
        "fit",
        where=Site(f"{CWD}/train_ddp.py", 102, "main"),
        batch_size=512,
        epochs=90,
        epoch_steps=2502,
        input_kind="tf.data",
        strategy="MirroredStrategy",
        replicas=2,
    ),
    verdict=Verdict(
        "model",
        "Model-bound: 97 % of each step is spent in the step function, which XLA could make "
        "up to 1.27 times as fast.",
        utilization=0.966,
    ),
    times=ReportedTimes(
        0.161, 0.1555, 0.052, 0.0091, 120, 3180.1, 41.2, 0.008, {"real": (0.161, 0.16, 0.162)}
    ),
    startup=StartUp(41.2, imports_s=4.1, tracing_s=19.4),
    between_epochs=BetweenEpochs(0.84, 1, epoch_steps=2502),
    callbacks=(
        CallbackCost(
            "TensorBoard",
            0.0041,
            120,
            epoch_s=3.21,
            where=Site(f"{CWD}/train_ddp.py", 97),
            arguments={"histogram_freq": 1},
        ),
        CallbackCost("ModelCheckpoint", 0.00001, 120, epoch_s=None),
    ),
    functions=(),
    utilization=(
        PhaseUse(
            "real",
            40,
            cpu_cores=11.4,
            rss_peak=9 * GIB,
            gpu=(
                {
                    "index": 0,
                    "samples": 40,
                    "utilization_percent": 94.0,
                    "power_w": 287.4,
                    "sm_clock_mhz": 1709.6,
                    "sm_active": 0.81,
                    "tensor_active": 0.023,
                    "dram_active": None,
                    "pcie_rx_bytes_s": 1.1e9,
                    "pcie_tx_bytes_s": None,
                    "memory_used_peak": int(20.1 * GIB),
                    "throttle": ["power cap"],
                },
                {
                    "index": 1,
                    "samples": 40,
                    "utilization_percent": 92.0,
                    "power_w": None,
                    "memory_used_peak": None,
                    "throttle": [],
                },
            ),
        ),
    ),
    findings=(XLA, GPU_MODE),
    practices=(),
    patch=Patch(DIFF + DIFF.replace("train.py", "models/resnet.py"), ("keras_xla",)),
    not_measured=(NotTaken("the exchange of gradients", "no run on one device was made"),),
    notes=(),
    seconds=74.9,
)

PARTIAL = replace(
    INPUT_BOUND,
    ending=Ending.STALLED,
    verdict=Verdict("none", "No verdict: the loop was not timed with its data already there."),
    times=ReportedTimes(0.0021, None, None, None, 7, None, 4.4, None, {"real": (0.0021,)}),
    loop=Loop("update"),
    startup=None,
    between_epochs=BetweenEpochs(0.4, 1),
    stages=(ReportedStage("map", None, None, None), ReportedStage("batch", None, None, None)),
    callbacks=(),
    functions=(),
    utilization=(PhaseUse("real", 1), PhaseUse("resident", 0)),
    findings=(),
    practices=(),
    overhead=None,
    patch=Patch("", ()),
    not_measured=(
        NotTaken("resident", "the loop takes its batches from its own code"),
        NotTaken("input", "no dataset was seen"),
        NotTaken("stages", "no dataset was seen"),
        NotTaken("samples per second", "the batch size is not known"),
        NotTaken("host work", "the step function could not be called on its own"),
        NotTaken("noise", "one block of steps only"),
    ),
    notes=(),
    output_tail="step 1\rstep 2\rstep 7\n",
)
