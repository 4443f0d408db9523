"""Runs that failed before their first step, and what to do instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recordings import recording
from trainperf.model import Ending
from trainperf.report.assemble.no_loop import KERAS_FIT, S3_PATHS, way_out

ERROR = {
    "e": "error",
    "type": "ValueError",
    "text": "Attempt to convert a value (PerReplica:{\n  0: <tf.Tensor ...",
}
STRATEGY = {"e": "tf_strategy", "cls": "MultiWorkerMirroredStrategy", "workers": 2}


def test_the_same_error_under_another_strategy_has_another_cause():
    mirrored = {"e": "tf_strategy", "cls": "MirroredStrategy", "replicas": 2}

    assert way_out(recording(mirrored, ERROR, ending=Ending.FAILED)) is None
    assert way_out(recording(ERROR, ending=Ending.FAILED)) is None


def test_fit_under_several_workers_has_two_ways_out():
    found = way_out(recording(STRATEGY, ERROR, ending=Ending.FAILED))

    assert found == KERAS_FIT
    assert "strategy.run" in found
    assert "TF_USE_LEGACY_KERAS=1" in found


def test_a_tensorflow_that_cannot_open_s3_has_ways_out():
    text = "{{function_node}} File system scheme 's3' not implemented (file: 's3://b/0.tfrecord')"
    error = {"e": "error", "type": "UnimplementedError", "text": text}

    assert way_out(recording(error, ending=Ending.FAILED)) == S3_PATHS
    assert way_out(recording(ending=Ending.FAILED, output_tail=f"UnimplementedError: {text}"))


def test_a_strategy_that_only_the_output_names_counts():
    tail = "in MultiWorkerMirroredStrategy\nValueError: Attempt to convert a value (PerReplica:{"

    assert way_out(recording(ending=Ending.FAILED, output_tail=tail)) == KERAS_FIT


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ValueError", "Error initializing via env:// rendezvous: environment variable RANK"),
        ("KeyError", "'LOCAL_RANK'"),
    ],
)
def test_a_script_that_needs_a_launcher_is_told_how_to_give_it_one(kind: str, text: str):
    failed = recording({"e": "error", "type": kind, "text": text}, ending=Ending.FAILED)
    run = replace(failed.run, command=("/usr/bin/python3", "train.py", "--epochs", "3"))

    found = way_out(replace(failed, run=run))

    assert found is not None
    assert (
        "trainperf diagnose -- torchrun --standalone --nproc_per_node 2 train.py --epochs 3`"
        in found
    )


def test_a_script_under_mpirun_is_not_told_to_start_mpirun_by_torchrun():
    text = "Error initializing via env:// rendezvous: environment variable RANK"
    failed = recording({"e": "error", "type": "ValueError", "text": text}, ending=Ending.FAILED)
    run = replace(failed.run, command=("/usr/bin/mpirun", "-np", "2", "python", "train.py"))

    found = way_out(replace(failed, run=run))

    assert found is not None
    assert found.startswith("mpirun does not set RANK and WORLD_SIZE")
    assert "torchrun --" not in found


def test_a_rank_of_a_job_has_its_launcher():
    error = {"e": "error", "type": "KeyError", "text": "'LOCAL_RANK'"}
    other = {"e": "error", "type": "KeyError", "text": "'batch_size'"}

    assert way_out(recording({"e": "rank", "rank": 0}, error, ending=Ending.FAILED)) is None
    assert way_out(recording(other, ending=Ending.FAILED)) is None


@pytest.mark.parametrize(
    "tail",
    [
        "train.py: error: the following arguments are required: --data",
        "Error: Missing option '--data'.",
    ],
)
def test_arguments_that_a_script_asks_for_are_named(tail):
    found = way_out(recording(ending=Ending.FAILED, output_tail=f"usage\n{tail}\n"))
    assert found.startswith("It needs --data: put that behind its name: `trainperf diagnose ")
