"""The fetcher against real registries, real clients, real volumes, and hubs that say they are fakes."""
