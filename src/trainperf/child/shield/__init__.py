"""Writers of the user's process, kept from their real files."""
