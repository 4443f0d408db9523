"""Source before and after the edits of pipelines; some is left alone."""
