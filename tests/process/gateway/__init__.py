"""The gateway as a process, between real clients and engines that can misbehave."""
