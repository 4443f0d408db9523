"""Edits that turn loops and functions into other functions: a part of what `Script` can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainperf.model import Site
from trainperf.rewrite import extraction, loops
from trainperf.rewrite.checks import names_imported
from trainperf.rewrite.editing import Editing


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

    def counted_into_functions(
        self,
        site: Site,
        taken: int,
        names: tuple[str, str, str],
        counters: Sequence[str],
        call: str,
    ) -> None:
        """Turn the `while` loop at `site` into a generator of places and a function of one.

        The generator `names[0]` yields the `counters` and does all but the first `taken`
        statements; these go into `names[1]`, which takes `names[2]`. `call` follows.
        """
        file = self._file(site.file)
        self._edit(file, loops.counted(file.source, site, taken, names, counters, call))

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
