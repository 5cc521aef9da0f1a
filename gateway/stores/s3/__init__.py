"""The `s3` store: an S3 server behind the gateway, spoken to by a client of our own."""
