"""Names as nobody should give them, for formats in which a name could do something."""

from __future__ import annotations

from dataclasses import replace

from reporters.samples_observed import CWD, INPUT_BOUND, PARALLEL_MAP
from trainperf.model import Diagnosis, NotTaken, Outcome, Patch, Site, Trial, Verdict

NAMES = (
    "a|b",
    "a\\|b",
    "`a|b`",
    "`a\\`|b`",
    "<img src=x onerror=alert(1)>",
    "`</code><script>alert(1)</script>`",
    "</details></summary><b>",
    "<!-- -->",
    "&lt;b&gt; &#60;b&#62; &amp;",
    "@octocat and @github/team, mail@example.com",
    "#12 GH-12 octo/repo#3",
    "[x](http://evil.example)",
    "![x](http://evil.example/a.png)",
    "[x]: http://evil.example",
    "http://evil.example www.evil.example <http://evil.example>",
    "*a* _b_ __c__ **d** ~~e~~ _",
    "`",
    "``",
    "a ``b` c",
    "```\n</details>\n# heading\n```",
    "~~~\nx\n~~~",
    "# heading",
    "- item\n\n1. item\n\n> quote\n\n---\n\n===",
    "| a | b |\n|---|---|\n| c | d |",
    "a\r\nb\u2028c\vd\0e\ufffff\ud800g",
    "::error::x%0A::set-env name=A::b",
    "]]> <![CDATA[ &nope; \x08",
    "\\",
    "a\\",
    "$a$ $$b$$",
    "'\"`$(touch owned)`\"'",
)


def named(name: str) -> Diagnosis:
    """A diagnosis in which everything that can come from outside is `name`."""
    finding = replace(
        PARALLEL_MAP,
        title=name,
        text=f"{name}\n\n{name}",
        bound_basis=name,
        where=(Site(f"{CWD}/{name}.py", 3, name, 1, 4, 5), Site(name, 9, name)),
        advice=name,
        snippet=name,
    )
    return replace(
        INPUT_BOUND,
        script=name,
        command=("python", name),
        verdict=Verdict("input", name, 0.3),
        findings=(finding, replace(finding, id="tf_cache")),
        practices=(replace(finding, id="early_stopping", bound=None),),
        trials=(Trial("tf_cache", Outcome.FAILED, name, parity=name, bound=1.5),),
        patch=Patch(name, ("tf_map_parallel",), environment={"NAME": name}),
        not_measured=(NotTaken(name, name),),
        notes=(name,),
        framework=replace(INPUT_BOUND.framework, version=name),
        machine=replace(INPUT_BOUND.machine, hostname=name, python=name),
    )
