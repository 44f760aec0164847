"""Whether a broker is healthy and ready, and what `/metrics` leaves out while it is not."""

from http import HTTPStatus

from ottla.broker.metrics import Metrics
from tests.broker_office import Office, play
from tests.group_samples import GROUP, TOPIC
from tests.unit.test_handlers_consumer_groups import join


def test_a_broker_whose_disk_failed_is_neither_healthy_nor_ready() -> None:
    async def scenario(office: Office) -> None:
        metrics = Metrics(office.broker.node, failed=lambda: True)

        assert (await metrics.health()).status is HTTPStatus.SERVICE_UNAVAILABLE
        assert (await metrics.readiness()).status is HTTPStatus.SERVICE_UNAVAILABLE

    play(scenario)


def test_a_broker_is_not_ready_while_a_coordinator_reads_its_log() -> None:
    async def scenario(office: Office) -> None:
        metrics = Metrics(office.broker.node, failed=lambda: False)
        office.broker.create(TOPIC, partition_count=1)
        await office.ask(join(), 1)
        members = f'kafka_consumergroup_members{{consumergroup="{GROUP}"}} 1'
        assert (await metrics.readiness()).status is HTTPStatus.OK
        page = (await metrics.metrics()).body
        assert members in page
        assert f'ottla_group_rebalances_total{{consumergroup="{GROUP}"}} 1' in page

        await office.stop_loading()

        answer = await metrics.readiness()
        assert answer.status is HTTPStatus.SERVICE_UNAVAILABLE
        assert answer.body == "coordinators read __consumer_offsets\n"
        assert (await metrics.health()).status is HTTPStatus.OK
        assert "kafka_consumergroup_members" not in (await metrics.metrics()).body

    play(scenario)
