"""See how far a group is behind, and what a reset of its offsets would change."""

from datetime import timedelta

import ottla

with ottla.Admin() as admin:
    lag = admin.lag("billing")
    latest = max((p.time_lag or timedelta() for p in lag.partitions), default=timedelta())
    print(lag.state, lag.total, latest > timedelta())
    back = -timedelta(hours=2)
    for change in admin.reset_offsets("billing", topics=["orders"], to=back, dry_run=True):
        print(change.tp, change.old, "->", change.new)
