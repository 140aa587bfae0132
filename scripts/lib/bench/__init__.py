"""Programs that forward frames, one after the other on the same ports, and the cost per packet of each.

The ports are the driver in traffic-port/: it makes, answers and checks the traffic
in the thread that polls it, and counts where we can read it.

    cases     the measurements: traffic, programs, sets of both
    programs  how each program is started, and when it is ready
    counters  the port's counters, and the time on the processor of the thread that polls
    measure   rounds and medians
    idle      a worker with nothing to do
    rings     two workers, of which one hands all to the other
    report    the tables on the screen, and the JSON
    document  the tables and charts in docs/performance.md
"""
