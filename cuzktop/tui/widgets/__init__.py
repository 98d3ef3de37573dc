"""One panel a file; each draws its own lines."""
