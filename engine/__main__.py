"""``python -m engine`` is ``noctaya-echo``."""

from engine.cli import main

if __name__ == "__main__":
    main()
