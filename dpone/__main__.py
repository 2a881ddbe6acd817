"""`python -m dpone` is the same as `dpone`."""

from dpone_core.cli.main import entry_point

if __name__ == "__main__":
    entry_point()
