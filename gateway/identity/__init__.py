"""JSON Web Tokens of workers: the issuers' keys, and the verdict on a token."""
