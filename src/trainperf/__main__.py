"""`python -m trainperf`."""

from trainperf.commands.cli import main

if __name__ == "__main__":
    main()
