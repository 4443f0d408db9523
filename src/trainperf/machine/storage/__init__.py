"""How fast the files and objects can be read that the script reads."""
