"""A `Diagnosis` becomes a `Document`: sections, facts, tables and bars, said once."""
