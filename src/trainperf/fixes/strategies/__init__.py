"""`tf.distribute`: strategies, scopes, how data is dealt out."""
