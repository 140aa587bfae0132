"""A guided trial of RNICs: `python3 -m check_rnic`; scripts/check-rnic prepares the machine for it."""

CHECKS = (
    "baseline",
    "gap",
    "nak",
    "second-nak",
    "ack",
    "held",
    "duplicate",
    "ack-request",
    "swallowed-acks",
    "old-ack",
    "control",
    "tunnel",
    "cnp",
    "timeout",
    "control-among-reads",
    "read-response",
    "atomic-response",
    "alive",
)
"""The checks of lr2-check-rnic, in the order of the run."""
