"""Source before and after the edits of loaders; some is left alone."""
