"""The rules: one file each, discovered by being there, named for their fix."""
