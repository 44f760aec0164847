"""The admin client: everything that can be asked of a cluster, in plain calls.

Start with `admin`: the two classes that users hold, and nothing else.  What a method does is a
function of the module for its subject, and takes a `Caller` (`calling`) where users see `self`:

    topics         create, delete, list, describe, add partitions
    configs        settings of topics, brokers and groups
    positions      offsets in partitions; deleting records
    groups         list, describe, delete; members to remove
    stories        what the coordinator of a group remembers of it
    group_offsets  what groups have committed
    lag, resets    how far they are behind; letting them go on from elsewhere
    transactions   list, describe, abort; hanging ones; fencing
    cluster        brokers, features, log directories
    replicas       elections and reassignments
    acls, scram, quotas    who may do what, with which password, and how much

`outcomes` is what comes of asking about several things.  Wire messages never leave this package:
results are frozen dataclasses, and whatever a broker refuses is raised.
"""
