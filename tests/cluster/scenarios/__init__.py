"""What a user lives through, on a real cluster with the install that ships.

One suite for the stand-in and for the real Metacontroller (``METACONTROLLER=/path``). What must
never happen (a replica too many, a deletion, a write while all is quiet) is read from the API
server's audit log, which misses nothing, and not by looking often.
"""
