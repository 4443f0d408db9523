"""The sections of a report: a module for each, which writes it on a page."""
