"""The real servers that tests may ask for. Each starts with the first test that names it."""

pytest_plugins = [
    "tests.services.object_stores",
    "tests.services.postgres",
    "tests.services.valkey",
    "tests.services.gateway_process",  # imports one of the above, so it is last
]
