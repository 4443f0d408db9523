"""A `Diagnosis` becomes the sections of a report: facts, tables and bars, said once."""
