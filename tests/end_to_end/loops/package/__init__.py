"""A package of several files, started with `-m package.train`."""
