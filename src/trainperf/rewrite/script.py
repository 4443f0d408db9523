"""The vocabulary of edits a fix may make in the user's source, and what they come to."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import extraction, loops
from trainperf.rewrite.call_edits import CallEdits
from trainperf.rewrite.calls import EditedFile
from trainperf.rewrite.checks import names_imported
from trainperf.rewrite.diff import of_file, shown, unified
from trainperf.rewrite.editing import Editing, Reader, default_reader
from trainperf.rewrite.statement_edits import StatementEdits
from trainperf.source.statements import dotted
from trainperf.source.text import Source

__all__ = ["Reader", "Script", "default_reader"]

_LATE = (
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.BoolOp,
    ast.IfExp,
    ast.While,
)
"""What computes its parts later, again or perhaps not."""


class Moving(Editing):
    """Source files whose loops and functions can be taken apart; edits are kept until asked for."""

    def loop_into_function(self, site: Site, name: str, item: str, call: str) -> None:
        """Turn the `for` loop at `site` into a function of each item, and a call of that.

        `for x in xs: …` becomes `def name(x): …` and `call`, in which `{}` stands for `xs`;
        `item` is what an item is called that the loop takes apart.
        """
        file = self._file(site.file)
        loop = loops.at(file.source, site)
        self._edit(file, loops.body_into_function(file.source, loop, name, item, call))

    def loop_part_into_function(
        self,
        site: Site,
        taken: int,
        names: tuple[str, str],
        results: Mapping[str, str],
        call: str,
    ) -> None:
        """Turn the first `taken` statements of the `for` loop at `site` into a function of an item.

        The function is called `names[0]`, takes `names[1]` and yields `results`, expressions by
        the names that the loop has for them. The loop goes over `call`, in which `{}` stands for
        its items.
        """
        file = self._file(site.file)
        loop = loops.at(file.source, site)
        edits = loops.part_into_function(file.source, loop, taken, names, results, call)
        self._edit(file, edits)

    def loop_part_into_generator(
        self, site: Site, part: loops.Part, name: str, results: Mapping[str, str], call: str
    ) -> None:
        """Move the `for` loop at `site`, with the statements `part` of it, into a generator.

        The loop then goes over `call`, in which `{}` stands for that of the generator `name`,
        which yields `results`, expressions by the names that the loop has for them.
        """
        file = self._file(site.file)
        loop = loops.at(file.source, site)
        edits = loops.part_into_generator(file.source, loop, part, name, results, call)
        self._edit(file, edits)

    def split_function(self, site: Site, result: str, head: str) -> None:
        """End a function ahead of the statement at `site` with `result`; the rest is under `head`.

        `head` is the line `def …:` of a function of its own, as far indented as the first.
        """
        file = self._file(site.file)
        names_imported(f"{head}\n    {result}")  # refuses what is no statement
        self._edit(file, extraction.split(file.source, file.source.around(site), result, head))


class Script(CallEdits, StatementEdits, Moving):
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
        copied._take_from(self)
        return copied

    def sources(self) -> dict[str, str]:
        """Return the changed files: absolute path to new text, without byte order mark."""
        return {file.path: text for file, text in self._changed()}

    def contents(self) -> dict[str, bytes]:
        """Return the changed files as bytes, each in the encoding of its original."""
        settings = {one.path: one.text.encode() for one in self._configured()}
        return settings | {file.path: file.source.encode(text) for file, text in self._changed()}

    def originals(self) -> dict[str, bytes]:
        """Return the bytes that the changed files were read as."""
        settings = {one.path: one.data for one in self._configured()}
        return settings | {file.path: file.source.data for file, _ in self._changed()}

    def diff(self) -> str:
        """Return all changes as one unified diff that `git apply` takes in `root`.

        To be written as UTF-8 without translating line endings. Raises
        `CannotRewrite` where a file in another encoding would not survive that.
        """
        return self._diff(of_file)

    def shown(self) -> str:
        """Return all changes as one unified diff to be read: those of notebooks by cells."""
        return self._diff(shown)

    def _changed(self) -> list[tuple[EditedFile, str]]:
        texts = [(file, file.text()) for file in self._files.values()]
        return [(file, text) for file, text in texts if text != file.source.text]

    def _diff(self, of: Callable[[str, Source, str], str]) -> str:
        pieces = [unified(one.name, one.before, one.text) for one in self._configured()]
        changed = sorted(
            (os.path.realpath(file.path), file, text) for file, text in self._changed()
        )
        for real, file, text in changed:
            relative = os.path.relpath(real, self.root).replace(os.sep, "/")
            pieces.append(of(relative, file.source, text))
        return "".join(pieces)
