"""The screen; alone imports Textual."""
