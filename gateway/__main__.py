"""``python -m gateway`` is ``noctaya-gateway``."""

from gateway.cli import main

if __name__ == "__main__":
    main()
