"""The demo: RoCE with loss on a long link, without and with gateways.

One pass is one run of all programs: two hosts, two gateways and the emulated
link between them, each a process of its own, joined by shared memory.
"""
