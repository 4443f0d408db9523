"""From findings to changed files: overlays, diffs, what is kept."""
