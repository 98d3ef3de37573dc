"""Lines of the daemon's log become events; pure."""
