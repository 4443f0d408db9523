"""One file of the user's with the edits asked for so far."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from trainperf.errors import CannotRewrite
from trainperf.rewrite.calls import CallChange, call_edits
from trainperf.rewrite.edits import Edit, render
from trainperf.source.text import Source


@dataclass(frozen=True)
class EditedFile:
    """A source with the edits asked for so far."""

    path: str
    source: Source
    edits: tuple[Edit, ...] = ()
    calls: dict[int, CallChange] = field(default_factory=dict)

    def text(self) -> str:
        """Return the text with all edits; raises `CannotRewrite` if it is not Python."""
        edits = list(self.edits)
        for change in self.calls.values():
            edits += call_edits(self.source, change)
        text = render(self.source.text, edits)
        try:
            ast.parse(text)
        except (SyntaxError, ValueError) as error:
            reason = f"the edited {self.source.name} would not parse: {error}"
            raise CannotRewrite(reason) from error
        self.source.encode(text)
        return text
