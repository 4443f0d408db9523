"""Channels are read from the file that SageMaker puts into the container."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainperf.machine.after_run import channels
from trainperf.model import Channel


def write(root: Path, text: str) -> None:
    path = root / "opt/ml/input/config/inputdataconfig.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"train": 3}'])
def test_a_file_that_is_broken_names_none(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)

    assert channels(tmp_path) == ()


def test_mode_source_and_path_are_told(tmp_path: Path) -> None:
    config = {
        "train": {
            "ContentType": "application/x-tfrecord",
            "TrainingInputMode": "FastFile",
            "S3DistributionType": "FullyReplicated",
            "RecordWrapperType": "None",
        },
        "test": {"FileSystemType": "FSxLustre"},
    }
    write(tmp_path, json.dumps(config))

    assert channels(tmp_path) == (
        Channel("test", "", "/opt/ml/input/data/test", "FSx"),
        Channel("train", "FastFile", "/opt/ml/input/data/train", "S3", "application/x-tfrecord"),
    )
