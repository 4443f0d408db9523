"""Generators that do slow work for each element."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of, looping, reading
from trainperf.source.module import Module
from trainperf.source.rule import Rule


class TfGenerator(Rule):
    """`Dataset.from_generator` whose generator reads a file, or loops, for each element."""

    words = ("from_generator",)
    silent = (
        """
        import tensorflow as tf
        def rows():
            yield from array
        ds = tf.data.Dataset.from_generator(rows, output_signature=s)
        """,
        """
        import tensorflow as tf
        def rows():
            for line in open('names.txt'):
                yield line
        ds = tf.data.Dataset.from_generator(rows, output_signature=s)
        """,
        """
        import tensorflow as tf
        ds = tf.data.Dataset.from_generator(rows, tf.int32)
        """,
    )
    fires = (
        """
        import numpy as np
        import tensorflow as tf
        def images():
            for path in paths:
                yield np.load(path)
        ds = tf.data.Dataset.from_generator(images, output_signature=s)
        """,
        """
        from PIL import Image
        import tensorflow as tf
        def load(path):
            return Image.open(path)
        def images():
            for path in paths:
                yield load(path)
        ds = tf.data.Dataset.from_generator(lambda: images(), tf.uint8)
        """,
    )

    def check(self, module: Module) -> Iterator[tuple[ast.AST, str]]:
        for call in module.calls("tensorflow.data.Dataset.from_generator"):
            function = function_of(module, argument(call, "generator", 0))
            if isinstance(function, ast.Lambda) and isinstance(function.body, ast.Call):
                function = function_of(module, function.body.func)
            if function is None:
                continue
            for loop in (each for each in ast.walk(function) if isinstance(each, ast.For)):
                body = ast.Module(body=list(loop.body), type_ignores=[])
                if slow := reading(module, body) or looping(module, body):
                    yield (
                        call,
                        (
                            f"from_generator with a generator that calls {slow} for each element: "
                            "it runs on one core and takes turns with the training loop, so the "
                            "model may wait for it; a map over file names uses all cores"
                        ),
                    )
                    break
