"""The MariaDB rows store."""
