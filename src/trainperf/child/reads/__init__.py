"""Files and objects that are read while a loop is timed."""
