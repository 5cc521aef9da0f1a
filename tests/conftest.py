"""The real servers that tests may ask for. Each starts with the first test that names it."""

pytest_plugins = [
    "tests.services.fronts",
    "tests.services.object_stores",
    "tests.services.postgres",
    "tests.services.mariadb",
    "tests.services.valkey",
    "tests.services.etcd",
    "tests.services.registries",
    "tests.services.nginx_dav",
    "tests.services.gateway_process",  # imports some of the above, as the one before it
]
