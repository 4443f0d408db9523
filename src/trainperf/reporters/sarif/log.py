"""A log of SARIF 2.1.0, and the parts that are the same whatever it tells of."""

from __future__ import annotations

import json
import os.path
from collections.abc import Sequence
from typing import Any

from trainperf.fixes import HEADINGS, Fix
from trainperf.report.plain import file_uri, inside, plain, relative_uri

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
"""The name by which SARIF knows the root of the repository; GitHub's as well."""

Json = dict[str, Any]


def log(driver: Json, invocation: Json, results: Sequence[Json], **more: Any) -> str:
    """Return a log of one run; `more` are other keys of it."""
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "originalUriBaseIds": {ROOT: {"description": {"text": "the root of the repository"}}},
        "columnKind": "unicodeCodePoints",
        **more,
        "results": list(results),
    }
    whole = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def rule(fix: Fix) -> Json:
    """Return what a fix is about, whatever the run."""
    why = fix.documentation.partition(HEADINGS[0])[2].partition(HEADINGS[1])[0]
    return {
        "id": fix.id,
        "shortDescription": {"text": fix.summary},
        "fullDescription": {"text": " ".join(why.split()) or fix.summary},
        "help": {"text": fix.documentation, "markdown": fix.documentation},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["performance", fix.category]},
    }


def artifact(file: str, root: str) -> Json:
    """Return where a file is: relative to `root`, the repository's, where it lies beneath it."""
    path = inside(file, root)
    if path is None:
        return {"uri": file_uri(os.path.abspath(file))}
    return {"uri": relative_uri(path), "uriBaseId": ROOT}


def message(text: str) -> Json:
    """Return a message; no name in it can become a link, which is "[text](target)"."""
    return {"text": plain(text).replace("](", "] (")}
