"""Device time: marks behind queued work, and what is read from them."""
