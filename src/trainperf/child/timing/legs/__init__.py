"""A leg of a trial, inside its process: its warm-up, its slices, what it shares with trainperf."""
