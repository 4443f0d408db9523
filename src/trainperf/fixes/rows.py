"""Edits that are settings: an argument of a call, a flag of a framework, a variable.

A fix that changes nothing else says so in a row, `edit = SetArgument("fused", "True", OPTIMIZER)`,
and writes no `rewrite`. `{name}` in a value is of the finding's data.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from trainperf.errors import CannotRewrite
from trainperf.model import Finding, Site
from trainperf.rewrite import Script
from trainperf.rewrite.arguments import Wanted, set_argument
from trainperf.source.origins import RecordedCall


@dataclass(frozen=True)
class Callee:
    """What is called: its name, and of its arguments the defaults and the positional places.

    A subclass or a function of the user's may take them in another order; "" is any.
    """

    name: str = ""
    defaults: Mapping[str, object] = field(default_factory=dict)
    positions: Mapping[str, int] = field(default_factory=dict)

    def check(self, script: Script, site: Site) -> None:
        """Raise `CannotRewrite` unless the call at `site` is of it."""
        source = script.source(site.file)
        called = source.call(site).func
        name = source.module.name(called) or ast.unparse(called)
        if self.name and name.rpartition(".")[2] != self.name:
            raise CannotRewrite(f"it is built by {ast.unparse(called)}, not by {self.name}")


@dataclass(frozen=True)
class SetArgument:
    """An argument of the call at each place of a finding, changed where the run had it from.

    `needs` names another argument without which the value must be `without`. What is its default
    is left out of the call where that says `drop`, as is `excludes`, which cannot stand beside it.
    """

    name: str
    value: str
    of: Callee = Callee()
    needs: str = ""
    without: str = ""
    drop: bool = False
    excludes: str = ""

    def make(self, script: Script, finding: Finding) -> None:
        """Change it at each place; raises `CannotRewrite` as `set_argument` does."""
        for site in finding.where:
            self.set(script, site, finding)

    def set(self, script: Script, site: Site, finding: Finding) -> None:
        """Change it in one call."""
        self.of.check(script, site)
        written = script.call_keywords(site)
        if self.drop and self.name in written:
            script.remove_keyword(site, self.name)
            return
        value = self.value.format_map(finding.data)
        seen = RecordedCall.of(finding.data, self.name, self.of.defaults)
        place = self.of.positions.get(self.name)
        set_argument(script, site, Wanted(self.name, value, place, self.needs, self.without), seen)
        if self.excludes in written:
            script.remove_keyword(site, self.excludes)
        elif seen.arguments.get(self.excludes):
            set_argument(script, site, Wanted(self.excludes, "False"), seen)


@dataclass(frozen=True)
class SetFlag:
    """A line for the whole process, after the imports of a file: `torch.backends.… = True`.

    The line begins with the name of a module. Where the file names one of `unless`, the user has
    set it himself.
    """

    line: str
    unless: tuple[str, ...] = ()

    def make(self, script: Script, finding: Finding) -> None:
        """Write the line; raises `CannotRewrite`."""
        file = finding.where[0].file
        text = script.source(file).text
        for name in self.unless:
            if name in text:
                raise CannotRewrite(f"the file sets {name} itself")
        module, _, rest = self.line.partition(".")
        script.insert_after_imports(file, f"{script.module_name(file, module)}.{rest}")


@dataclass(frozen=True)
class SetVariable:
    """Variables of the environment, set for the command."""

    values: Mapping[str, str]

    def environment(self, finding: Finding) -> dict[str, str]:
        """Return what they are set to."""
        data = finding.data
        return {
            name.format_map(data): value.format_map(data) for name, value in self.values.items()
        }
