"""Diagnoses whose fixes were tried, as they come."""

from __future__ import annotations

from dataclasses import replace

from reporters.samples_observed import (
    CACHE,
    CWD,
    DIFF,
    FIT,
    GPU_MODE,
    HEALTHY,
    INPUT_BOUND,
    PARALLEL_MAP,
    XLA,
)
from trainperf.model import (
    Control,
    Equivalence,
    ExperimentChange,
    ExperimentWay,
    Finding,
    Item,
    Length,
    NotTaken,
    Outcome,
    Overhead,
    Patch,
    PatchedFile,
    Site,
    Stack,
    Training,
    Trial,
    Trials,
    Verdict,
)

SHUFFLE = Finding(
    id="tf_shuffle_buffer",
    category="input",
    title="Shuffle the names of files",
    text="The buffer holds 1,000 decoded images, and is filled when an epoch starts.",
    bound=1.44,
    bound_basis="138 ms as it is, 95.1 ms as if the buffer were full",
    equivalence=Equivalence.EXACT,
    where=(Site(f"{CWD}/train.py", 33, "make_dataset", col=9, end_line=33, end_col=29),),
    advice="Move `shuffle` before `map`.",
    snippet="ds = files.shuffle(1000).map(load)",
    rewritable=True,
)

STEPS_PER_CALL = Finding(
    id="keras_steps_per_execution",
    category="host",
    title="Run several steps in one call",
    text="Keras spends 1.21 ms of each step in Python.",
    bound=1.01,
    bound_basis="as if Python cost nothing",
    equivalence=Equivalence.NUMERICS,
    where=(FIT,),
    advice="Set `steps_per_execution`.",
    snippet="model.compile(..., steps_per_execution=16)",
    rewritable=True,
)

MIXED = Finding(
    id="keras_mixed_precision",
    category="model",
    title="Compute in bfloat16",
    text="The tensor cores are idle: everything is computed in float32.",
    bound=1.8,
    bound_basis="twice the rate in the 89 % of the step that is matrix products",
    equivalence=Equivalence.NUMERICS,
    where=(Site(f"{CWD}/train.py", 40, "main"),),
    advice="Set the policy before the model is built.",
    snippet='keras.mixed_precision.set_global_policy("mixed_bfloat16")',
    rewritable=True,
)

KEPT_MAP = Trial(
    "tf_map_parallel",
    Outcome.KEPT,
    "",
    *(2.94, 2.88, 3.01, 12, 64),
    parity="same to rounding",
    kept=True,
    bound=3.2,
)

KEPT_CACHE = Trial(
    "tf_cache",
    Outcome.KEPT,
    "",
    *(1.92, 1.88, 1.97, 12, 48),
    parity="same to rounding",
    kept=True,
    bound=1.8,
    one_off_s=3.12,
    break_even_steps=48,
)

KEPT_THREADS = Trial(
    "tf_gpu_thread_mode",
    Outcome.KEPT,
    "",
    *(1.08, 1.05, 1.11, 12, 60),
    parity="same to rounding",
    kept=True,
    bound=1.04,
)

SIDE_BY_SIDE = Trials("side by side", legs=5, seconds=48.3, seed=1234)

CONTROL = Control(1.001, 0.993, 1.008, 12, 72, floor=0.0082, reproducible=True, loss_band=1e-7)

TWO_EDITS = (
    DIFF
    + """@@ -33,1 +33,2 @@
     ds = ds.batch(32)
+    ds = ds.cache()
"""
)

THREE_KEPT = Stack(
    ("tf_map_parallel", "tf_cache", "tf_gpu_thread_mode"),
    *(3.41, 3.29, 3.52, 12, 64),
    interaction=0.559,
    before_step_s=0.151,
    after_step_s=0.0444,
    before_samples_per_s=211.9,
    after_samples_per_s=720.9,
    before_epoch_s=2460.0,
    after_epoch_s=724.0,
)

LEDGER = Training(
    Length(6000, "6 epochs of 1,000 steps", epochs=6, where=FIT),
    seconds_now=864.0,
    seconds_after=386.4,
    low=369.8,
    high=403.0,
    items=(
        Item("start", "imports", 1, 4.1, 4.1),
        Item("start", "set-up", 1, 2.3, 2.3),
        Item("start", "first step, with tracing", 1, 3.2, 3.2),
        Item("steps", "training steps", 5999, 828.0, 341.2, FIT),
        Item("between", "validation", 6, 22.2, 22.2),
        Item("between", "opening the input again", 5, 4.2, 4.2),
        Item("once", "one-off cost", 1, 0.0, 9.2),
    ),
)
"""The whole training with the kept changes, by its ledger."""

WHOLE_RUNS = replace(
    LEDGER,
    basis="whole runs",
    seconds_now=868.5,
    seconds_after=392.0,
    low=390.2,
    high=393.8,
    runs=(866.1, 390.2, 393.8, 870.9),
)

TRIED = replace(
    INPUT_BOUND,
    findings=(PARALLEL_MAP, replace(CACHE, bound=1.8, rewritable=True), GPU_MODE),
    trials=(KEPT_MAP, KEPT_CACHE, KEPT_THREADS),
    trying=SIDE_BY_SIDE,
    control=CONTROL,
    stack=THREE_KEPT,
    training=LEDGER,
    overhead=Overhead(0.000024, 0.0002, observing_s=21.2, trying_s=48.3),
    patch=Patch(
        TWO_EDITS,
        ("tf_map_parallel", "tf_cache", "tf_gpu_thread_mode"),
        root=CWD,
        files=(PatchedFile(f"{CWD}/train.py", "9f" * 32),),
        environment={"TF_GPU_THREAD_MODE": "gpu_private", "TF_GPU_THREAD_COUNT": "2"},
    ),
    seconds=69.5,
)

ONE_KEPT = replace(
    TRIED,
    findings=(PARALLEL_MAP, CACHE, STEPS_PER_CALL),
    trials=(
        KEPT_MAP,
        Trial("tf_cache", Outcome.NOT_TRIED, "no edit could be written for it", bound=3.1),
        Trial(
            "keras_steps_per_execution",
            Outcome.NO_EFFECT,
            "the interval does not clear the noise of 0.8 %",
            *(1.003, 0.991, 1.014, 12, 192),
            parity="same to rounding",
            bound=1.01,
        ),
    ),
    stack=Stack(("tf_map_parallel",), 2.94, 2.88, 3.01, 12, 64, None, 0.138, 0.0469, 231.9, 681.8),
    training=Training(None, reason="how often `while True` turns is not known"),
    patch=INPUT_BOUND.patch,
)

NOTHING_KEPT = replace(
    TRIED,
    verdict=Verdict("host", "Host-bound: Python takes 9 % of each step.", utilization=0.91),
    findings=(STEPS_PER_CALL, SHUFFLE),
    training=replace(
        LEDGER,
        seconds_after=None,
        low=None,
        high=None,
        items=tuple(replace(one, after_s=None) for one in LEDGER.items[:-1]),
    ),
    trials=(
        ONE_KEPT.trials[2],
        Trial(
            "tf_shuffle_buffer",
            Outcome.SLOWER,
            "",
            *(0.962, 0.941, 0.984, 24, 96),
            parity="same to rounding",
            bound=1.44,
        ),
    ),
    stack=None,
    patch=Patch("", ()),
)

HEALTHY_TRIED = replace(
    HEALTHY,
    findings=(STEPS_PER_CALL,),
    trials=(ONE_KEPT.trials[2],),
    trying=SIDE_BY_SIDE,
    control=CONTROL,
    overhead=TRIED.overhead,
    patch=Patch("", ()),
)

LARGER_BATCH = ExperimentChange(
    finding=Finding(
        id="batch_size",
        category="model",
        title="The batch of 32 is too small to keep the device busy",
        text="With twice the batch, the step did 1.55× as many samples per second in this run.",
        bound=2.4,
        bound_basis="samples per second with 4 times the batch, by a probe with twice",
        equivalence=Equivalence.SEMANTICS,
        where=(Site(f"{CWD}/train.py", 33, "make_dataset", col=9, end_line=33, end_col=29),),
        advice="Try a batch of 64 or 128 samples, with the learning rate adjusted, and compare "
        "the accuracy reached. A common rule scales that of Adam with the square root of the "
        "batch: it was 0.001 in this run, which makes 0.0014 for 64 and 0.002 for 128.",
        snippet="ds = ds.batch(128)",
        rewritable=True,
        data={"batch_size": 32, "samples_per_step": 4},
    ),
    why="Twice the batch takes less than twice the time. But there are half as many updates in "
    "an epoch, so the course of training changes.",
    losses_differ=False,
    unit="samples",
    before_per_s=211.9,
    ways=(
        ExperimentWay("batch=128", 2.05, 1.99, 2.11, 12, 60, 434.4, 421.7, 447.1),
        ExperimentWay("batch=64", 1.52, 1.47, 1.58, 12, 60, 322.1, 311.5, 334.8),
    ),
    patch=Patch(
        "--- a/train.py\n+++ b/train.py\n@@ -33,1 +33,1 @@\n-    ds = ds.batch(32)\n"
        "+    ds = ds.batch(128)\n",
        ("batch_size",),
        root=CWD,
        files=(PatchedFile(f"{CWD}/train.py", "9f" * 32),),
    ),
)

OTHER_LOSSES = ExperimentChange(
    finding=MIXED,
    why="It was to keep the numbers, but losses part by 7.3 % at step 12; 2 % are allowed.",
    losses_differ=True,
    unit="samples",
    before_per_s=211.9,
    ways=(ExperimentWay("", 1.62, 1.58, 1.66, 12, 60, 343.3, 334.8, 351.8),),
    patch=Patch("", ("keras_mixed_precision",), root=CWD),
)

ALL_OUTCOMES = replace(
    TRIED,
    findings=(PARALLEL_MAP, CACHE, SHUFFLE, MIXED, STEPS_PER_CALL, GPU_MODE, XLA),
    trials=(
        KEPT_MAP,
        replace(KEPT_CACHE, bound=3.1),
        Trial(
            "batch_size",
            Outcome.CHANGES,
            "in no patch, as it changes the experiment: `trainperf fix --only batch_size` makes it",
            *(2.05, 1.99, 2.11, 12, 60),
            parity="changes the experiment; losses not compared",
            bound=2.4,
            variant="batch=128",
        ),
        Trial(
            "batch_size",
            Outcome.CHANGES,
            "batch=128 gives more",
            *(1.52, 1.47, 1.58, 12, 60),
            parity="changes the experiment; losses not compared",
            bound=2.4,
            variant="batch=64",
        ),
        Trial(
            "keras_jit_compile",
            Outcome.LOSES,
            "the 21.4 s that it costs once are earned back after 1,830 steps, and this training "
            "has 300",
            *(1.31, 1.28, 1.34, 12, 60),
            parity="same to rounding",
            one_off_s=21.4,
            break_even_steps=1830,
        ),
        Trial(
            "tf_shuffle_buffer",
            Outcome.REDUNDANT,
            "on top of tf_map_parallel and tf_cache it gave 1.00× (0.98 to 1.02)",
            *(1.38, 1.35, 1.41, 12, 60),
            parity="same to rounding",
            bound=1.44,
        ),
        ONE_KEPT.trials[2],
        Trial(
            "tf_gpu_thread_mode",
            Outcome.SLOWER,
            "",
            *(0.93, 0.91, 0.95, 12, 60),
            parity="same to rounding",
            bound=1.04,
        ),
        Trial(
            "keras_mixed_precision",
            Outcome.LOSSES_DIFFER,
            "by 7.3 % from step 12 on; 2 % are allowed",
            *(1.62, 1.58, 1.66, 12, 60),
            parity="part by 7.3 % at step 12",
            bound=1.8,
        ),
        Trial(
            "keras_xla",
            Outcome.FAILED,
            "InvalidArgumentError: Detected unsupported operations when trying to compile "
            "graph: ImageProjectiveTransformV3 (train.py:58)",
            bound=1.27,
        ),
        Trial("keras_jit_layers", Outcome.NOT_TRIED, "out of budget", bound=1.1),
        Trial("tf_interleave_parallel", Outcome.NOT_TRIED, "it changes the experiment"),
    ),
    trying=replace(SIDE_BY_SIDE, legs=9, budget_needed_s=281.0),
    stack=replace(THREE_KEPT, fixes=("tf_map_parallel", "tf_cache"), interaction=0.604),
    training=WHOLE_RUNS,
    experiment_changes=(LARGER_BATCH, OTHER_LOSSES),
)

ONE_AFTER_ANOTHER = replace(
    ONE_KEPT,
    trying=replace(
        SIDE_BY_SIDE,
        mode="one after another",
        mode_reason="two of them need 29.1 GiB of memory and 11.0 GiB are free",
    ),
)

NOT_REPRODUCIBLE = replace(
    ONE_KEPT,
    trials=(replace(KEPT_MAP, parity="within 0.6 %"), *ONE_KEPT.trials[1:]),
    control=replace(CONTROL, reproducible=False, loss_band=0.008),
)

OUT_OF_BUDGET = replace(
    INPUT_BOUND,
    trials=(
        Trial("tf_map_parallel", Outcome.NOT_TRIED, "out of budget", bound=3.2),
        Trial("tf_cache", Outcome.NOT_TRIED, "out of budget", bound=3.1),
    ),
    trying=Trials(
        "none",
        reason="the script needs 94 s to its first step, and the budget is 3 min",
        budget_needed_s=402.0,
    ),
)

TRIALS_INTERRUPTED = replace(
    ONE_KEPT,
    trials=(
        KEPT_MAP,
        Trial("tf_cache", Outcome.NOT_TRIED, "interrupted", bound=3.1),
        Trial("keras_steps_per_execution", Outcome.NOT_TRIED, "interrupted", bound=1.01),
    ),
    trying=replace(SIDE_BY_SIDE, reason="interrupted", interrupted=True),
    stack=None,
    control=None,
)

NONE_POSSIBLE = replace(
    INPUT_BOUND,
    trying=Trials("none", reason="no edit could be written for any of them"),
    patch=Patch("", (), skipped=(NotTaken("tf_cache", "the line was not found"),)),
)
