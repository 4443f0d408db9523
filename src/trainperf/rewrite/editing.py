"""The edits that a script has so far: of source, of its command, of files of settings."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from trainperf.rewrite import layout
from trainperf.rewrite.calls import CallChange
from trainperf.rewrite.checks import names_imported
from trainperf.rewrite.command import AddedOptions
from trainperf.rewrite.configuration import Configuration
from trainperf.rewrite.edited import EditedFile
from trainperf.rewrite.edits import Edit, Insert, Rank
from trainperf.rewrite.reading import Reader, Reading, default_reader


class Editing(Reading):
    """A script whose edits are kept until asked for; see `Script`.

    `command` are the options that follow the command as it was run.
    """

    def __init__(self, root: str | Path, read: Reader = default_reader) -> None:
        super().__init__(root, read)
        self.command = AddedOptions()
        self._configurations: dict[str, Configuration] = {}

    def append_to_command(self, option: str, value: str) -> None:
        """Have the script run with an option more, behind all others of its command."""
        self.command = self.command.plus(option, value)

    def set_in_configuration(self, path: str, name: str, value: object) -> None:
        """Give an outermost setting of a JSON or YAML file of the user's another plain value."""
        real = os.path.realpath(self.path(path))
        file = self._configurations.get(real)
        if file is None:
            relative = os.path.relpath(real, self.root).replace(os.sep, "/")
            file = Configuration.of(relative, self.path(path), self.data(path))
        self._configurations[real] = file.with_setting(name, value)

    def _edit(self, file: EditedFile, edits: Iterable[Edit]) -> None:
        self._put(replace(file, edits=tuple(dict.fromkeys((*file.edits, *edits)))))

    def _put(self, file: EditedFile) -> None:
        file.text()  # raises before anything is kept
        self._files[os.path.realpath(file.path)] = file

    def _replace(self, file: EditedFile, node: ast.expr, value: str) -> None:
        if file.source.text_of(node) != value:
            self._edit(file, [layout.replaced(file.source, file.source.span(node), value)])

    def _change_call(
        self,
        file: EditedFile,
        call: ast.Call | ast.Dict,
        change: Callable[[CallChange], CallChange],
    ) -> None:
        key = file.source.span(call)[1]
        changed = change(file.calls.get(key, CallChange(call)))
        self._put(replace(file, calls={**file.calls, key: changed}))

    def _added_names(self, file: EditedFile) -> set[str]:
        texts = [e.text for e in file.edits if isinstance(e, Insert) and e.rank is Rank.IMPORT]
        return {name for text in texts for name in names_imported(text)}

    def _take_from(self, other: Editing) -> None:
        """Have the edits that another has."""
        self._files = dict(other._files)
        self.command = other.command
        self._configurations = dict(other._configurations)

    def _configured(self) -> list[Configuration]:
        """The files whose settings are changed, by their names."""
        files = self._configurations.values()
        return sorted((one for one in files if one.text != one.before), key=lambda one: one.name)
