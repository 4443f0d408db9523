"""Start a command under observation, follow it, guard what is the user's, and stop it."""
