"""The page of the HTML report: what it shows, computed here, and templates that only place it."""
