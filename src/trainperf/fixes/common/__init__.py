"""What fixes of several families share: cases, bodies, words, the pipeline."""
