"""The zoo: what real runs of real scripts recorded, to be read again on any machine.

`python -m zoo.record NAME…` makes a recording, `zoo.load(NAME)` gives it back.
"""

from __future__ import annotations

import hashlib
import lzma
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from trainperf import evidence
from trainperf.model import Diagnosis, Evidence, Machine, Recording
from trainperf.model.encoding import decoded

REPOSITORY = Path(__file__).parents[2]
RECORDINGS = Path(__file__).parent / "recordings"
DIAGNOSES = Path(__file__).parent / "diagnoses"
FOLDER = "<folder of the script>"


@dataclass(frozen=True)
class Script:
    """A script of the repository and how it is run: words around its name, and variables.

    The files of its folder are there when it runs, and those of `library`, a folder of the
    repository, as an installed package.
    """

    path: str
    arguments: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    library: str = ""
    extra_s: float = 10.0

    @property
    def folder(self) -> Path:
        return (REPOSITORY / self.path).parent


@dataclass(frozen=True)
class Recorded:
    """One observed run and its machine; `sources` are hashes of the files that it names."""

    recording: Recording
    machine: Machine
    sources: dict[str, str]

    @property
    def evidence(self) -> Evidence:
        return evidence.read(self.recording, self.machine)


def file_of(name: str) -> Path:
    return RECORDINGS / f"{name}.json.xz"


def load(name: str) -> Recorded:
    """Return a recording; its places are those of the script in the repository.

    Raises `ValueError` where a file that it names has changed since.
    """
    folder = SCRIPTS[name].folder
    text = lzma.decompress(file_of(name).read_bytes()).decode().replace(FOLDER, str(folder))
    recorded = msgspec.json.decode(text, type=Recorded)
    if recorded.sources != hashes(folder, recorded.sources):
        raise ValueError(f"{name} is of other sources: cd tests && python -m zoo.record {name}")
    return recorded


def diagnosed(name: str) -> Diagnosis:
    """The answer of a whole `trainperf diagnose` of a script, as it was saved with its trials."""
    text = lzma.decompress((DIAGNOSES / f"{name}.json.xz").read_bytes()).decode()
    text = text.replace(FOLDER, str(SCRIPTS[name].folder))
    diagnosis: Diagnosis = decoded(Diagnosis, msgspec.json.decode(text))
    return diagnosis


def hashes(folder: Path, names: dict[str, str] | list[str]) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def _of(folder: str, prefix: str, names: str, **same: Any) -> dict[str, Script]:
    return {f"{prefix}{name}": Script(f"{folder}/{name}.py", **same) for name in names.split()}


TESTS = "tests/end_to_end"
SCRIPTS = {
    **_of(
        "examples",
        "",
        "checkpoint_every_batch eager_loop generator healthy mirrored_rnn numpy_batches retracing "
        "rnn_padded_text slow_images small_files tiny_steps torch_healthy torch_memmap_gpt "
        "torch_python_collate torch_slow_transform torch_step_logging",
    ),
    # compiling is not begun where less than a minute is left
    **_of("examples", "", "torch_small_kernels", extra_s=75.0),
    **_of(
        "examples",
        "",
        "ddp_accumulation ddp_compute_bound ddp_large_gradients ddp_straggler",
        launcher=RANKS,
    ),
    **_of(
        "tests/real",
        "",
        "averaged_in_numpy cell_by_hand config_object crowded_threads decaying_squares "
        "distorted_buffer "
        "dropped_attention eager_agent eager_attention estimated_losses file_opened_per_item "
        "fit_each_window folds_anew front_padded frozen_base growing_graph histograms_each_step "
        "inline_tape kept_sessions keras_doubles left_debugging loaded_again loader_each_epoch "
        "loader_keywords mirrored_cpus null_context numpy_doubles outside_the_scope own_generator "
        "padded_phrases padded_to_the_longest_of_all predict_between_fits predicted_each_batch "
        "ranking_loop rows_one_by_one reviews_of_all_lengths same_batch_twice saving_often "
        "shadow_by_lambda sharded_checkpoints single_heads small_batch threads_in_workers "
        "replayed_now_and_then traced_and_eager two_trainings unrolled "
        "waiting_numpy_function weather_windows work_for_nothing zipped_shards",
    ),
    **_of("tests/real", "", "compiled_lengths", extra_s=20.0),
    **_of("tests/real", "", "ranks_alike", launcher=RANKS, env={"OMP_NUM_THREADS": "4"}),
    **_of("tests/real", "", "threads_beside_workers", env={"OMP_NUM_THREADS": ""}),  # not set
    **_of("tests/real", "", "uneven_parts", launcher=RANKS),
    "uneven_pretrained": Script("tests/real/uneven_parts.py", ("pretrained",), RANKS),
    **_of("tests/real", "", "validation_as_long", env={"TF_NUM_INTRAOP_THREADS": "1"}),
    **_of(
        f"{TESTS}/seeds",
        "seed_",
        "resnet_pipeline rnn_series torch_float32_head torch_short_epochs torch_tiny_layers "
        "torch_waiting_items",
    ),
    **_of(
        f"{TESTS}/loops",
        "loop_",
        "by_hand debugged distributed_fit eager_fit gan numpy_fit pydataset "
        "python_metric several_fits traced_lengths train_on_batch two_datasets with_next",
    ),
    **_of(
        f"{TESTS}/torch_loops",
        "torch_loop_",
        "accumulation checkpointed compiled gan get_batch in_backward iterable keras_torch lbfgs "
        "next_iter samplers scaler two_phases",
    ),
    **_of(f"{TESTS}/torch_loops", "torch_loop_", "workers", arguments=("fork",)),
    **{
        f"emulated_{kind}": Script(
            f"{TESTS}/seeds/torch_emulated.py", env={"KIND": kind}, library="tests/emulation"
        )
        for kind in ("hidden", "host", "transfer", "two")
    },
}
