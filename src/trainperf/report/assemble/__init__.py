"""From evidence, findings and trials to a `Diagnosis`: times, stages, parts, what is missing."""
