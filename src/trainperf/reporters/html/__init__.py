"""The report as one HTML file: nothing is requested, and what the script says stays text."""

from __future__ import annotations

import base64
import hashlib

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
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
    )


def _policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy for a page with this `<style>` and `<script>`.

    Nothing can be requested: no image but those in the page itself, no font, no frame.
    See https://www.w3.org/TR/CSP3/ for the grammar.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
