"""Edits beside the source: options of the command, settings in files that it names."""

from __future__ import annotations

import os
from pathlib import Path

from trainperf.rewrite.command import Words
from trainperf.rewrite.configuration import Configuration
from trainperf.rewrite.reading import Reader, Reading, default_reader


class Beside(Reading):
    """What a script is run with, and the edits made to it; see `Script`.

    `command` are the words that follow the command as it was run.
    """

    def __init__(self, root: str | Path, read: Reader = default_reader) -> None:
        super().__init__(root, read)
        self.command = Words()
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

    def _take_from(self, other: Beside) -> None:
        """Have the edits that another has."""
        self.command = other.command
        self._configurations = dict(other._configurations)

    def _configured(self) -> list[Configuration]:
        """The files whose settings are changed, by their names."""
        files = self._configurations.values()
        return sorted((one for one in files if one.text != one.before), key=lambda one: one.name)
