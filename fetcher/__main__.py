"""Lets `python -m fetcher` do what `noctaya-fetch` does."""

import sys

from fetcher import cli

sys.exit(cli.main())
