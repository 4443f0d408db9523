"""Where a call's argument gets its value: the literals behind it, in all of the user's files."""
