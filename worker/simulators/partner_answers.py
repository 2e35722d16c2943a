"""
How the simulated partner answers, step by step; what it shares with the rail is answered by the rail's own code.

Called by `partner` once the request, and its effect if there is one, is logged.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from aiohttp import web

from worker.simulators import rail_answers, rail_script
from worker.simulators.partner_steps import Kind, Step

#: What the log calls a reset connection.
HUNG_UP = "reset"

_METADATA_URL = "http://169.254.169.254/latest/meta-data/"
#: Where a client that follows a redirect would show in the log.
_REDIRECTED = "/p/redirected/ok"
_ENDLESS_BYTES = 2**40
_DATE_FORMS = {
    "imf": "%a, %d %b %Y %H:%M:%S GMT",
    "rfc850": "%A, %d-%b-%y %H:%M:%S GMT",
    "asctime": "%a %b %e %H:%M:%S %Y",
}
_FROM_NOW = re.compile(r"(?P<form>imf|rfc850|asctime)(?P<offset_s>[+-][0-9]{1,9})")


_Answer = Callable[[], web.StreamResponse]
_ANSWERS: Mapping[Kind, _Answer] = {
    Kind.OK: lambda: web.Response(text="OK"),
    Kind.DOWN: lambda: web.Response(text="OK"),
    Kind.SLOW: lambda: web.Response(text="OK"),
    Kind.REDIRECT: lambda: web.Response(status=302, headers={"Location": _REDIRECTED}),
    Kind.REDIRECT_PRIVATE: lambda: web.Response(status=302, headers={"Location": _METADATA_URL}),
    Kind.BODY_ERROR: lambda: web.json_response({"error": "the scripted partner does not take it"}),
    Kind.ABORT_MESSAGE: lambda: web.Response(status=500, headers={"webhook-delivery": "abort-message"}),
    Kind.DISABLE: lambda: web.Response(status=500, headers={"webhook-delivery": "disable"}),
    Kind.CONFIRM_LATE: lambda: web.Response(status=202),
    Kind.DENY_LATE: lambda: web.Response(status=202),
    Kind.NEVER_CONFIRM: lambda: web.Response(status=202),
}
#: What the log calls an answer that is not 200.
_NAMES: Mapping[Kind, str] = {
    Kind.REDIRECT: "302",
    Kind.REDIRECT_PRIVATE: "302",
    Kind.ABORT_MESSAGE: "500",
    Kind.DISABLE: "500",
    Kind.CONFIRM_LATE: "202",
    Kind.DENY_LATE: "202",
    Kind.NEVER_CONFIRM: "202",
    Kind.RESET_AFTER_BODY: HUNG_UP,
    Kind.HANG: "hang",
    Kind.DRIP_HEADERS: "drip-headers",
}


def name_of(step: Step) -> str:
    """Return the status a step answers, or the name of what it does instead."""
    return str(int(step.number)) if step.kind is Kind.STATUS else _NAMES.get(step.kind, "200")


async def give(request: web.Request, step: Step, now: datetime) -> web.StreamResponse:
    """Do what the step says; `now` is what Retry-After dates count from."""
    if step.kind is Kind.STATUS:
        return _status(step, now)
    if step.kind is Kind.SLOW:
        await asyncio.sleep(step.number)
    if answer := _ANSWERS.get(step.kind):
        return answer()
    return await rail_answers.give(request, _as_rail_step(step), "")


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Reset the connection with whatever is on its way."""
    return await rail_answers.give(request, rail_script.Step(kind=rail_script.Kind.RESET_AFTER_BODY), "")


def retry_after(text: str, now: datetime) -> str:
    """Write `imf+2`, `rfc850+2` or `asctime-60` as a date so many seconds from now; any other text as it stands."""
    found = _FROM_NOW.fullmatch(text)
    if not found:
        return text
    return (now + timedelta(seconds=int(found["offset_s"]))).strftime(_DATE_FORMS[found["form"]])


def _status(step: Step, now: datetime) -> web.StreamResponse:
    headers = {"Retry-After": retry_after(step.retry_after, now)} if step.retry_after is not None else {}
    return web.Response(status=int(step.number), headers=headers)


def _as_rail_step(step: Step) -> rail_script.Step:
    if step.kind is Kind.ENDLESS:
        return rail_script.Step(kind=rail_script.Kind.HUGE, number=_ENDLESS_BYTES)
    return rail_script.Step(kind=rail_script.Kind(step.kind.value), number=step.number)
