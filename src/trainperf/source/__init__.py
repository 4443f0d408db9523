"""One parsed file of the user's: its names, scopes, loops and values, for fixes and for lint."""
