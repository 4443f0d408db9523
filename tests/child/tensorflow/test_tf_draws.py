"""Where a map's function begins to draw, and what one element takes there."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainperf.child.tensorflow.stages import drawn_from


def flipped(image: Any) -> Any:
    return tf.image.random_flip_left_right(image)


def decoded_and_converted(path: Any, label: Any) -> Any:
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.random_crop(  # draws
        image, (8, 8, 3)
    )
    image = tf.image.resize(image, (4, 4))
    return image, label


def in_a_branch(path: Any, label: Any) -> Any:
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    if label > 0:  # draws
        image = flipped(image)
    return image, label


def without(path: Any, label: Any) -> Any:
    return tf.io.read_file(path), label


@pytest.fixture
def files(tmp_path: Path) -> Any:
    names = [str(tmp_path / f"{index}.jpg") for index in range(2)]
    for name in names:
        tf.io.write_file(name, tf.io.encode_jpeg(np.zeros((10, 20, 3), np.uint8)))
    return tf.data.Dataset.from_tensor_slices((names, [0, 1]))


def seen(function: Any, files: Any) -> dict[str, int] | None:
    described = {"name": function.__name__, "file": __file__}
    return drawn_from(files.map(function), described)


@pytest.mark.parametrize(
    ("function", "size"),
    [
        (decoded_and_converted, 10 * 20 * 3 * 4),
        (in_a_branch, 10 * 20 * 3),
    ],
)
def test_what_an_element_takes_where_its_function_begins_to_draw(function, size, files):
    lines, first = inspect.getsourcelines(function)
    marked = next(at for at, line in enumerate(lines, first) if "# draws" in line)

    assert seen(function, files) == {"line": marked, "bytes": size + 4}  # and the label


def test_a_function_that_does_not_draw_has_no_such_line(files: Any) -> None:
    assert seen(without, files) is None
