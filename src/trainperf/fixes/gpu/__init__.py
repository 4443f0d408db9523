"""The card itself: clocks, throttling, sharing, ECC, MIG, its link."""
