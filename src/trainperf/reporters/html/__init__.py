"""The report as one HTML file: nothing is requested, and what the script says stays text."""

from __future__ import annotations

from trainperf.model import Diagnosis
from trainperf.report.level import ASKED_FOR_NOTHING, Judgement

ASSETS = "templates"
"""The folder of the templates, the style and the script, beside the view models."""


def render(
    diagnosis: Diagnosis,
    *,
    judgement: Judgement = ASKED_FOR_NOTHING,
    saved: str = "",
    patch_file: str = "",
) -> str:
    """Return the report as a page that stands by itself, for a browser, a phone or paper.

    The page carries its style and script, and a policy by which a browser runs nothing
    else and requests nothing. The same diagnosis gives the same page. `saved` is the name
    `trainperf show` finds the run by, `patch_file` the file the patch was written to: the
    commands that need them are named only if they are given. Of `judgement`, the
    answer of a check, or why it fails, stands below the verdict.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # 30 ms, only here
    from markupsafe import Markup

    from trainperf.reporters.html.markup import prose, shown
    from trainperf.reporters.html.page import context
    from trainperf.reporters.html.policy import policy

    environment = Environment(
        loader=PackageLoader(__name__, ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    style, script = (
        environment.loader.get_source(environment, name)[0] if environment.loader else ""
        for name in ("report.css", "report.js")
    )
    return environment.get_template("report.html.j2").render(
        **context(diagnosis, saved, patch_file),
        checked=prose(judgement.answer),
        problems=[prose(one) for one in judgement.problems],
        policy=policy(style, script),
        style=Markup(style),
        script=Markup(script),
    )
