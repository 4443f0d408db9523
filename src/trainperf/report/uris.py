"""Files as others find them: relative to the root of the repository, or as URIs."""

from __future__ import annotations

import os.path
from urllib.parse import quote


def inside(path: str, root: str) -> str | None:
    """Return `path` relative to `root`, None where it lies outside."""
    if not os.path.isabs(path):
        path = os.path.join(root, path)
    path, root = os.path.normpath(path), os.path.normpath(root)
    prefix = root if root.endswith("/") else f"{root}/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def relative_uri(path: str) -> str:
    """Return a relative path as a URI: the bytes of its name, percent-encoded."""
    return quote(_bytes(path), safe="/")


def file_uri(path: str) -> str:
    """Return an absolute path as a file URI."""
    return f"file://{quote(_bytes(path), safe='/')}"


def _bytes(path: str) -> bytes:
    """The name as it is on disk: what is no text in it comes as lone surrogates."""
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return path.encode("utf-8", "replace")
