"""Text and JSON for pipes, scripts and tickets; never imports Textual."""
