"""The fetcher's rules that need neither a network nor a volume."""
