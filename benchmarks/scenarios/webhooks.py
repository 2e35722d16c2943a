"""Webhook deliveries over loopback: signed, in the ledger, over kept connections, beside `requests.post` in a task."""

import dataclasses
from typing import Final

from benchmarks import arithmetic, contenders, effects, partners, runs
from benchmarks.bench import Bench, Scenario
from benchmarks.contenders import Contender
from benchmarks.figures import Chart, Findings, Goal, Table
from benchmarks.partners import Receiver
from tasks import names
from worker import app

_PROCESSES: Final = 2
_PARTNER: Final = "receiver"
_BATCHED: Final = contenders.CHIO_BATCHES.name
_BARE: Final = "bare aiohttp client"
#: The two fastest senders need more deliveries for a run to last.
_MORE_DELIVERIES: Final = 4


def _run(bench: Bench) -> Findings:
    rates: dict[str, list[float]] = {}
    with partners.receiver(bench) as receiver:
        own = partners.own(bench.folder_for("partners"), {_PARTNER: receiver.url}, _PARTNER)
        compared = (own, *_batches(own), _stock(receiver), _bare(receiver))
        for order in arithmetic.alternating(compared, bench.scale.rounds):
            for contender in order:
                rates.setdefault(contender.name, []).append(_deliveries_per_s(bench, contender, receiver))
    medians = {contender.name: arithmetic.median(rates[contender.name]) for contender in compared}
    stock = medians[contenders.CELERY.name]
    rows = [
        (name, each, arithmetic.ratio(each, stock), arithmetic.ratio(each, medians[_BARE]))
        for name, each in medians.items()
    ]
    columns = ("sender", "deliveries/s", "x Celery with requests", "x the bare client")
    return Findings(
        tables=(Table.of(f"Bodies of {effects.BODY_BYTES:,} bytes, {_PROCESSES} worker processes", columns, rows),),
        charts=(Chart.of("Webhooks delivered", "deliveries/s", list(medians.items())),),
        goals=_goals(medians),
    )


def _goals(medians: dict[str, float]) -> tuple[Goal, ...]:
    stock, bare = medians[contenders.CELERY.name], medians[_BARE]
    single, batched = medians[contenders.CHIO.name], medians.get(_BATCHED)
    times, unit = arithmetic.ratio, "x stock Celery with requests"
    return (
        Goal.at_least("webhook delivery, single", 2, unit, times(single, stock)),
        Goal.at_least("webhook delivery, batch", 4, unit, batched and times(batched, stock)),
        Goal.at_least("webhook delivery, batch", 0.6, "x the bare client", batched and times(batched, bare)),
    )


def _deliveries_per_s(bench: Bench, contender: Contender, receiver: Receiver) -> float:
    receiver.forget()
    count = bench.scale.deliveries * (_MORE_DELIVERIES if contender.name in {_BATCHED, _BARE} else 1)
    if contender.name == _BARE:
        rate_per_s = runs.enqueue(bench, contender, count, bench.folder_for(contender.name))
        bench.say(f"{contender.name}: {rate_per_s:,.0f} posts/s")
        return rate_per_s
    return runs.drain(bench, contender, processes=_PROCESSES, jobs=count).jobs_per_s


def _batches(own: Contender) -> tuple[Contender, ...]:
    """Return the same partner served in batches, as soon as the app registers their task."""
    if names.SEND_DELIVERIES not in {task.name for task in app.TASKS}:
        return ()
    # As docs/operations.md advises where there is much to deliver.
    environment = {**own.environment, effects.BATCH_SIZE_VARIABLE: "500", "CHIO_BATCH_CONCURRENCY": "128"}
    return (dataclasses.replace(own, name=_BATCHED, environment=environment),)


def _stock(receiver: Receiver) -> Contender:
    stock = contenders.stock(
        contenders.CELERY.name, "stock.post", environment={effects.RECEIVER_VARIABLE: receiver.url}
    )
    # Its task records nothing, so the receiver counts.
    return dataclasses.replace(stock, finished=lambda _client: receiver.received())


def _bare(receiver: Receiver) -> Contender:
    return dataclasses.replace(
        contenders.CELERY,
        name=_BARE,
        producer=("-m", "benchmarks.bare_client"),
        environment={effects.RECEIVER_VARIABLE: receiver.url},
    )


SCENARIO: Final = Scenario(
    name="webhooks",
    title="Webhooks over loopback",
    question=(
        "How many deliveries a second reach a receiver: this project's signed and recorded ones, a stock Celery task"
        " that calls `requests.post`, and a bare asynchronous client that does nothing else."
    ),
    run=_run,
)
