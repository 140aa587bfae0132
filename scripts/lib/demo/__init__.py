"""The demo: what loss on a long link does to RoCE, and what the gateways make of it.

One pass is one run of all programs: two hosts, two gateways and the emulated
link between them, each a process of its own, joined by shared memory.
"""
