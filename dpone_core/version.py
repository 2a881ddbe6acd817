"""The one place that states the version; pyproject.toml repeats it and a test compares them."""

__version__ = "0.1.0"
