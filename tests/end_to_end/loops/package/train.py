"""The training."""

import argparse

from .data import training_data
from .model import build


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    build().fit(training_data(args.batch_size), epochs=200, verbose=0)


if __name__ == "__main__":
    main()
