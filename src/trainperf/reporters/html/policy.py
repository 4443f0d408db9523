"""The page's content security policy: its own style and script, by their hashes."""

from __future__ import annotations

import base64
import hashlib


def policy(style: str, script: str) -> str:
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
