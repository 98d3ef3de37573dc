"""The views behind the keys 2 to 6, a file each, and what they share."""
