"""Numbers of records: how brokers tell what they have from what they miss.

Pure.  Each line counts its own records.  Where numbers were given to records that will never be
written, a producer without transactions counts from 0 again under the next epoch (KIP-360), of that
line only: brokers keep the epoch for each partition.  One with transactions aborts instead.
"""

from typing import Final

from ottla.client.producer.batch import PendingBatch, Stamp, sequence_after
from ottla.client.producer.lines import Line
from ottla.records.layout import NO_PRODUCER_ID

MAX_EPOCH: Final = 2**15 - 1


class Numbering:
    """Who we are, and how lines count under that name."""

    def __init__(self, *, is_transactional: bool) -> None:
        self._is_transactional = is_transactional
        self._producer_id = NO_PRODUCER_ID
        self._epoch = 0

    @property
    def is_known(self) -> bool:
        """Whether we have a producer id."""
        return self._producer_id != NO_PRODUCER_ID

    def identified(self, producer_id: int, epoch: int) -> None:
        """Lines that begin anew bear this id and epoch from now on."""
        self._producer_id, self._epoch = producer_id, epoch

    def is_ready(self, line: Line) -> bool:
        """Whether the first batch of a line may leave; mend the numbers of the line if it is time.

        What is in doubt leaves under its old number, until it is known whether it was written.
        """
        first = line.queue[0]
        if line.producer_id == NO_PRODUCER_ID:
            if not self.is_known:
                return False
            line.number_anew(self._producer_id, self._epoch)
        if first.stamp is not None and first.is_in_doubt:
            return True
        if not line.is_broken and line.refused_sequence is None:
            return True
        return not line.in_flight and self._mended(line)

    def stamp(self, batch: PendingBatch) -> Stamp:
        """The number of a batch that leaves."""
        if batch.stamp is not None and keeps_its_number(batch):
            return batch.stamp
        line = batch.line
        batch.numbering = line.numbering
        stamp = Stamp(line.producer_id, line.epoch, line.sequence, self._is_transactional)
        line.sequence = sequence_after(line.sequence, batch.record_count)
        return stamp

    def _mended(self, line: Line) -> bool:
        if not line.is_broken:
            line.number_again()
        elif line.epoch < MAX_EPOCH:
            line.number_anew(line.producer_id, line.epoch + 1)
        elif self._producer_id not in (line.producer_id, NO_PRODUCER_ID):
            line.number_anew(self._producer_id, self._epoch)
        else:
            self._producer_id = NO_PRODUCER_ID  # its epochs are used up: another one is asked for
            return False
        return True


def keeps_its_number(batch: PendingBatch) -> bool:
    """Whether a batch was sent under a number that still counts, or may have been written so."""
    is_current = batch.numbering == batch.line.numbering
    return batch.stamp is not None and (batch.is_in_doubt or is_current)
