"""The one error of the rig: a sentence for a person, shown without a traceback."""


class RigError(Exception):
    """The rig cannot do what was asked. The message is one line and says what to do."""


class MachineUnfit(RigError):
    """This machine or user cannot run the rig at all: tests are skipped, unless required."""
