"""Consumer groups of the new protocol (KIP-848): the coordinator itself shares out the partitions.

Start with `coordinator`: the groups of one machine, and the requests of their members.  `group` is
one group as its log tells of it; `draft` is its next state and the records that lead there;
`reconciling` takes one member from what it owns to what it shall own; `assignors` decide who shall
own what.  `classic_members` serves members that still speak the old protocol, `migration` turns a
group of one kind into the other.  `topics` is what is known of topics, `records` how all of it lies
in the log.  `story` tells what a group waits for, and why it rebalanced (`causes`).

Groups are hard state alone and change in `apply`; deadlines are kept beside them, in `watch`, and
what set off the last epochs in `chronicle`.
"""
