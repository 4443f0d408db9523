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
