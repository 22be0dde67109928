"""``python -m local`` is ``noctaya``."""

from local.cli import main

if __name__ == "__main__":
    main()
