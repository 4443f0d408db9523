"""The loop of any framework: where a step begins, which phase it belongs to, what it took."""
