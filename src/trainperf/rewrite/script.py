"""The vocabulary of edits a fix may make in the user's source, and what they come to."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite.calls import EditedFile
from trainperf.rewrite.configuration import Configuration
from trainperf.rewrite.editing import Reader, default_reader
from trainperf.rewrite.expressions import ExpressionEdits
from trainperf.rewrite.loops import LoopEdits
from trainperf.rewrite.statements import StatementEdits
from trainperf.source.statements import dotted

__all__ = ["Reader", "Script", "default_reader"]

_LATE = (
    ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.BoolOp, ast.IfExp,
    ast.While,
)  # fmt: skip
"""What computes its parts later, again or perhaps not."""


class Script(ExpressionEdits, StatementEdits, LoopEdits):
    """The user's source files with the edits made to them so far.

    Sites point into the original files, whatever edits were made before, so edits
    come in any order. The same edit asked for twice is made once. Every method that
    edits raises `CannotRewrite` and changes nothing where it cannot do so.

    `root` is the folder whose files may be edited; `read` returns the bytes of a file
    by its absolute path. Nothing is written.
    """

    def name_argument(self, argument: Site, *names: str) -> str:
        """Return the name of what stands at `argument`; what has none gets one, a line above.

        The first of `names` that is free. Raises `CannotRewrite` where it is not computed there,
        once each time its statement runs.
        """
        text, statement = self.expression(argument), self.around(argument)[-1]
        node = self.source(argument.file).expression(argument)
        if dotted(node):
            return text
        for each in ast.walk(statement):
            if isinstance(each, _LATE) and any(inner is node for inner in ast.walk(each)):
                raise CannotRewrite("an argument that needs a name is not computed once")
        name = self.free_name(argument.file, *names)
        value = ast.unparse(node) if "\n" in text else text
        self.insert_before(argument, f"{name} = {value}")
        self.replace_call(argument, name)
        return name

    def copy(self) -> Script:
        """Return a script with the same edits; further edits of one leave the other alone."""
        copied = Script(self.root, self._read)
        copied.options = dict(self.options)
        copied._files = dict(self._files)
        copied._configurations = dict(self._configurations)
        return copied

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words that follow the command as it was run."""
        return tuple(word for option in self.options.items() for word in option)

    def sources(self) -> dict[str, str]:
        """Return the changed sources: absolute path to new text, without byte order mark."""
        return {file.path: file.text for file in self._changed() if isinstance(file, EditedFile)}

    def contents(self) -> dict[str, bytes]:
        """Return the changed files as bytes, each in the encoding of its original."""
        return {file.path: file.content() for file in self._changed()}

    def originals(self) -> dict[str, bytes]:
        """Return the bytes that the changed files were read as."""
        return {file.path: file.data for file in self._changed()}

    def diff(self) -> str:
        """Return all changes as one unified diff that `git apply` takes in `root`.

        To be written as UTF-8 without translating line endings. Raises
        `CannotRewrite` where a file in another encoding would not survive that.
        """
        return "".join(file.diff() for file in self._changed())

    def shown(self) -> str:
        """Return all changes as one unified diff to be read: those of notebooks by cells."""
        return "".join(file.shown() for file in self._changed())

    def _changed(self) -> list[Configuration | EditedFile]:
        """The files that are changed, those of settings first, in the order of their names."""
        files = list[Configuration | EditedFile]()
        files += [file for _, file in sorted(self._configurations.items())]
        files += [file for _, file in sorted(self._files.items())]
        return [file for file in files if file.text != file.before]
