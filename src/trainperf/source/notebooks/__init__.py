"""A notebook as the text of a script, and back."""
