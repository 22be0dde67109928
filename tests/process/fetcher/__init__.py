"""The fetcher against real registries, clients and volumes, and hubs that say they are fakes."""
