"""How the training is set up: batch, evaluations, stopping, work of one's own."""
