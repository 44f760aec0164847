"""The ports in simulation: virtual time, a network that misbehaves, disks that forget.

Start with `simulation`, one seeded run of several nodes.  `loop`, `network` and `disk` are its
parts, and each is of use alone: most tests of storage need a `SimDisk` and no loop at all.
`history` judges what clients saw, in simulated and in real runs.

The same seed gives the same run, to the last callback.  So never take time, randomness or order
from anywhere but the simulation: no wall clock, no `random` module, no iteration over a set.
"""
