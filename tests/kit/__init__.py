"""What several tests make their cases of: processes, loops, legs and stand-ins."""
