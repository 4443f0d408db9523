"""`tf.distribute`: scopes, replicas, what is exchanged between them."""
