"""cuzktop: a `top` for the cuzk proving daemon."""

__version__ = "0.1.0"
