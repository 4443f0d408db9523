"""Growth: what makes late steps slower than early ones, or takes more and more memory."""
