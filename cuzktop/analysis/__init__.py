"""Pure functions from the model to figures and sentences."""
