"""What several tests make their cases of: sources, processes, stand-ins for what is not here."""
