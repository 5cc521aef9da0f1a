"""The `s3` dialect: the wire language of S3, spoken to unmodified clients (path style)."""
