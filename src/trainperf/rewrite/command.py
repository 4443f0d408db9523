"""Options that edits put at the end of the command, where an option of it chooses a setting."""

from __future__ import annotations

from dataclasses import dataclass

from trainperf.errors import CannotRewrite


@dataclass(frozen=True)
class AddedOptions:
    """Options with their values, as they follow the command that was run."""

    options: tuple[tuple[str, str], ...] = ()

    def plus(self, option: str, value: str) -> AddedOptions:
        """Return these and one more; raises `CannotRewrite` where it has another value already."""
        before = dict(self.options).get(option)
        if before not in (None, value):
            raise CannotRewrite(f"another fix sets {option} to {before}")
        return self if before == value else AddedOptions((*self.options, (option, value)))

    @property
    def words(self) -> tuple[str, ...]:
        """The words, each as the script gets it."""
        return tuple(word for each in self.options for word in each)
