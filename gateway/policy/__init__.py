"""From policy files to a decision: document, load, decide."""
