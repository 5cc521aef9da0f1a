"""`python -m gateway` is `fencegate`."""

from gateway.cli import main

if __name__ == "__main__":
    main()
