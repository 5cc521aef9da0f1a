"""The one road of a request: decide, look, admit, write, settle."""
