"""What may be slow, from source alone: `check` reads it, `rules` says what is looked for."""
