"""One observed process: its record, the hooks it sets, whose frames are whose."""
