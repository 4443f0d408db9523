"""One argument of a call changed at the place that it came from in the run."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.source.arguments import written
from trainperf.source.origins import (
    ENVIRONMENT,
    Elsewhere,
    RecordedCall,
    check_readers,
    display_of,
    entry,
    literal,
    origin_of,
)
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
    except (CannotRewrite, RecursionError):
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
    new = literal(ast.parse(wanted.value, mode="eval").body)
    if new is None:
        raise CannotRewrite(f"{wanted.value} is no literal")
    project = script.project((site.file, *seen.scripts))
    file = project.file(script.path(site.file))
    if file is None:
        raise CannotRewrite(f"{site.file} cannot be read")
    old = written(call, wanted.name, wanted.position)
    if old is None:
        starred = [each.value for each in call.keywords if each.arg is None]
        if len(starred) != 1:
            raise CannotRewrite(f"{wanted.name} is not among the keywords of one dictionary")
        old = entry(display_of(file, starred[0], last_name(call.func)), wanted.name)
        if old is None:
            raise CannotRewrite(f"no dictionary names {wanted.name}")
    origin = origin_of(project, file, old, wanted.name, seen)
    if wanted.needs:
        raise CannotRewrite(f"{wanted.needs} may be 0 by default")
    if origin.choices is not None and new[0] not in origin.choices:
        option = max(origin.options, key=len)
        raise Elsewhere(f"{option}, which sets {wanted.name}, does not take {wanted.value}")
    if not shared:
        check_readers(origin, last_name(call.func), wanted.name)
    script.replace_node(origin.file.path, origin.node, wanted.value)


def _check_overruled(old: str, wanted: Wanted, seen: RecordedCall) -> None:
    """Refuse to overrule what a call names where the user may choose it another way."""
    name, value = wanted.name, wanted.value
    if name not in seen.arguments or ENVIRONMENT.search(old):
        raise CannotRewrite(f"{name} is {old}: make that {value} where it is chosen")
    for option in (f"--{word}" for word in re.findall(r"\w+", old)):
        if seen.gives((option, option.replace("_", "-"))):
            raise CannotRewrite(f"{option} sets {name}: change it in the command")


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
