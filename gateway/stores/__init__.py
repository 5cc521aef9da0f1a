"""Where writes land."""
