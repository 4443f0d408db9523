"""Edits of datasets, collate functions and loaders, as source."""
