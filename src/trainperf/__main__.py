"""`python -m trainperf`."""

from trainperf.cli import main

if __name__ == "__main__":
    main()
