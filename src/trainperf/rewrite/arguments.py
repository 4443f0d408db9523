"""One argument of a call changed at the place that it came from in the run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.source.arguments import keyword, written
from trainperf.source.module import Module
from trainperf.source.origins import readers
from trainperf.source.origins.calls import Elsewhere, LeftOut, RecordedCall, live
from trainperf.source.origins.project import Project
from trainperf.source.origins.tracing import ENVIRONMENT, Tracer
from trainperf.source.origins.values import Node, Origin, literal
from trainperf.source.statements import last_name

if TYPE_CHECKING:
    from trainperf.rewrite.script import Script


PLAIN = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Wanted:
    """The value an argument is to have, as source text.

    Where `needs` names another argument of the call that may be 0, `value` is only allowed if
    it is not, and `without` is what is then.
    """

    name: str
    value: str
    position: int | None = None
    needs: str = ""
    without: str = ""

    def where(self, needed: str) -> str:
        """Return the value where the argument that it needs is what `needed` says."""
        if not self.needs or is_positive(ast.parse(needed, mode="eval").body):
            return self.value
        if (self.value, self.without) == ("True", "False"):
            return f"{needed} > 0"
        return f"{self.value} if {needed} else {self.without}"


def is_positive(node: ast.expr) -> bool:
    """Whether a number cannot be 0: `os.cpu_count()`."""
    found = literal(node)
    if found is not None:
        return isinstance(found[0], int) and found[0] > 0
    return isinstance(node, ast.Call) and last_name(node.func) == "cpu_count"


def set_argument(script: Script, site: Site, wanted: Wanted, seen: RecordedCall) -> None:
    """Give the call at `site` an argument: where the run had it from, else in the call.

    What the call takes from a variable, an option, a class, a dictionary or a caller is changed
    there, if that is the one place that the run can have had it from, and if no other code reads
    it. Otherwise it is overruled in the call. What an option of the command chooses, the command
    is given once more, with the new value.
    Raises `CannotRewrite` where the environment or a file that is no source chooses it, or the
    command in another way, or where the run did not tell what the argument was.
    """
    source = script.source(site.file)
    call = source.call(site)
    old = written(call, wanted.name, wanted.position)
    starred = [each.value for each in call.keywords if each.arg is None]
    if (old is None and not starred) or (old is not None and literal(old) is not None):
        _in_call(script, site, wanted, starred)
        return
    try:
        set_at_origin(script, site, wanted, seen)
        return
    except Elsewhere as chosen:
        if not (chosen.option and seen.reached):
            raise
        script.append_to_command(chosen.option, str(ast.literal_eval(wanted.value)))
        return
    except CannotRewrite:
        if old is not None:
            _check_overruled(source.text_of(old), wanted, seen)
    _in_call(script, site, wanted, starred)


def set_at_origin(
    script: Script, site: Site, wanted: Wanted, seen: RecordedCall, *, shared: bool = False
) -> None:
    """Give the call at `site` an argument where the run had it from, as `set_argument` does.

    With `shared`, what other code reads may change along. Raises `CannotRewrite` where that is not
    one place in the source.
    """
    call = script.source(site.file).call(site)
    if literal(ast.parse(wanted.value, mode="eval").body) is None:
        raise CannotRewrite(f"{wanted.value} is no literal")
    project = script.project((site.file, *seen.scripts))
    trace, own = Tracer(project), project.file(script.path(site.file))
    if own is None:
        raise CannotRewrite(f"{site.file} cannot be read")
    found = _origins(trace, own, call, wanted, seen, shared)
    literals = [each for each in found if isinstance(each, Origin)]
    if literals and wanted.needs:
        raise CannotRewrite(f"{wanted.needs} may be 0 by default")
    if literals and (len(found) == 1 or all(isinstance(e, Origin) and e.caller for e in found)):
        for each in literals:
            _replace_origin(script, each, wanted.value)
        return
    if literals:
        raise CannotRewrite(f"{wanted.name} may come from several places")
    left = [each for each in found if isinstance(each, LeftOut)]
    file, display = _common_display(project, left, last_name(call.func), wanted)
    _add_entry(script, file, display, wanted)


def _origins(
    trace: Tracer, file: Module, call: ast.Call, wanted: Wanted, seen: RecordedCall, shared: bool
) -> tuple[Origin | LeftOut, ...]:
    """Return the places that the argument may have come from; raises `CannotRewrite` for none."""
    called = last_name(call.func)
    try:
        found = live(trace, file, call, wanted.name, wanted.position, seen)
    except RecursionError as error:  # files that import a name from each other
        raise CannotRewrite(f"what gives {wanted.name} goes in circles") from error
    for each in found:
        if isinstance(each, Origin):
            _check_option(each, wanted, seen)
            if not shared and not each.options:
                readers.check(each.file, each.node, called, wanted.name)
            knob = readers.variable_of(each.file, each.node)
            if knob is not None and f"--{knob.id}" in seen.given:
                raise Elsewhere(f"--{knob.id} sets {wanted.name}: change it in the command")
    return found


def _check_option(origin: Origin, wanted: Wanted, seen: RecordedCall) -> None:
    option = max(origin.options, key=len, default="")
    if origin.choices is not None and ast.literal_eval(wanted.value) not in origin.choices:
        raise Elsewhere(f"{option}, which sets {wanted.name}, does not take {wanted.value}")
    if option_given(seen.given, origin.options):
        raise Elsewhere(f"{option} sets {wanted.name}: change it in the command", option)


def _check_overruled(old: str, wanted: Wanted, seen: RecordedCall) -> None:
    """Refuse to overrule what a call names where the user may choose it another way."""
    name, value = wanted.name, wanted.value
    if name not in seen.arguments or ENVIRONMENT.search(old):
        raise CannotRewrite(f"{name} is {old}: make that {value} where it is chosen")
    for option in (f"--{word}" for word in re.findall(r"\w+", old)):
        if option_given(seen.given, (option, option.replace("_", "-"))):
            raise CannotRewrite(f"{option} sets {name}: change it in the command")


def option_given(given: Iterable[str], options: Iterable[str]) -> bool:
    """Say whether a command may set an option: by its name, by how that begins, or by a file.

    `argparse` takes `--work 4` for `--workers`, `-vj4` for `-v -j 4`, and `@file`.
    """
    for option in options:
        for word in given:
            short = len(option) == 2 and not word.startswith("--") and option[1] in word[1:]
            if short or word.startswith("@") or (len(word) > 2 and option.startswith(word)):
                return True
    return False


def _in_call(script: Script, site: Site, wanted: Wanted, starred: Sequence[ast.expr]) -> None:
    value = wanted.value
    if wanted.needs:
        value = wanted.where(_needed(script, site, wanted, starred))
    script.set_keyword_or_extend(site, wanted.name, value, wanted.position)


def _needed(script: Script, site: Site, wanted: Wanted, starred: Sequence[ast.expr]) -> str:
    """Return the text of the argument that another one needs, in the call."""
    text = script.call_keywords(site).get(wanted.needs)
    if text is None and len(starred) == 1 and PLAIN.fullmatch(ast.unparse(starred[0])):
        default = ", 0" if wanted.value == "True" else ""
        return f'{ast.unparse(starred[0])}.get("{wanted.needs}"{default})'
    if text is None:
        raise CannotRewrite(f"{wanted.needs} is not written out in the call, so it may become 0")
    node = ast.parse(text, mode="eval").body
    if not PLAIN.fullmatch(text) and literal(node) is None and not is_positive(node):
        raise CannotRewrite(f"{wanted.needs} is {text}, which may become 0")
    return text


def _replace_origin(script: Script, origin: Origin, value: str) -> None:
    """Put a value in place of the literal that a call has it from."""
    node = _collapsed(origin.file, origin.node, lambda other: _says(other, value)) or origin.node
    script.replace_node(origin.file.path, node, value)


def _add_entry(script: Script, file: Module, display: ast.Dict | ast.Call, wanted: Wanted) -> None:
    """Name an argument in a dictionary, or a call, whose entries a call is given."""
    value = wanted.value
    if wanted.needs:
        needed = _entry(display, wanted.needs)
        if needed is None or not (PLAIN.fullmatch(ast.unparse(needed)) or is_positive(needed)):
            raise CannotRewrite(f"{wanted.needs} is not in the same dictionary, or may be 0")
        value = wanted.where(ast.unparse(needed))
    says = _collapsed(file, display, lambda other: _holds_just(other, wanted.name, value))
    if says is not None:
        other = says.orelse if says.body is display else says.body
        script.replace_node(file.path, says, script.source(file.path).text_of(other))
        return
    script.add_entry(file.path, display, wanted.name, value)


def _common_display(
    project: Project, left: Sequence[LeftOut], called: str, wanted: Wanted
) -> tuple[Module, ast.Dict | ast.Call]:
    """Return the one dictionary to name the argument in: all that may have run pass it.

    One that has the argument which this needs comes first, and one that other code reads as
    well is none.
    """
    refused: CannotRewrite | None = None
    displays: list[Node] = [one for one in left[0].displays if all(one in e.displays for e in left)]
    for file, node in displays:
        assert isinstance(node, ast.Dict | ast.Call)
        if wanted.needs and _entry(node, wanted.needs) is None:
            continue
        try:
            readers.check(file, node, called, wanted.name)
            return file, node
        except CannotRewrite as error:
            refused = error
    raise refused or CannotRewrite(f"{wanted.name} stands in none of several dictionaries")


def _entry(display: ast.expr, name: str) -> ast.expr | None:
    if isinstance(display, ast.Call):
        named = keyword(display, name)
        return named.value if named else None
    if isinstance(display, ast.Dict):
        for key, value in zip(display.keys, display.values, strict=True):
            if key is not None and literal(key) == (name,):
                return value
    return None


def _collapsed(file: Module, node: ast.expr, same: Callable[[ast.expr], bool]) -> ast.IfExp | None:
    """Return the choice `a if c else b` around a branch that becomes what the other one is."""
    around = file.parent(node)
    if not isinstance(around, ast.IfExp) or node is around.test:
        return None
    return around if same(around.orelse if node is around.body else around.body) else None


def _says(node: ast.expr, value: str) -> bool:
    return ast.unparse(node) == ast.unparse(ast.parse(value, mode="eval"))


def _holds_just(node: ast.expr, name: str, value: str) -> bool:
    """Whether a dictionary holds one entry and no more."""
    if isinstance(node, ast.Dict):
        one = len(node.keys) == 1
    else:
        one = isinstance(node, ast.Call) and len(node.keywords) == 1 and not node.args
    found = _entry(node, name) if one else None
    return found is not None and _says(found, value)
