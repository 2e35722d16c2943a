"""
Flower's options, read by `celery -A worker.app flower --conf=worker/flowerconfig.py`: every name here is one of them.

Flower is a view: it keeps nothing on disk, and events reach it through `worker.redaction` without payloads.
"""

import flower.events
import tornado.web
from flower.views import monitor

from worker import redaction
from worker.bootstrap import load_settings
from worker.settings_checks import refuse_unusable

_settings = load_settings()
refuse_unusable(_settings)

# Flower makes its receiver itself instead of asking the app for one, so the app's own would never see what other
# programs tell of the tasks they send: all their arguments.
flower.events.EventReceiver = redaction.RedactingReceiver

# Flower tells these two to anybody, whatever the log-in.
for _view in (monitor.Metrics, monitor.Healthcheck):
    _view.get = tornado.web.authenticated(_view.get)

address = _settings.flower_address
port = _settings.flower_port
basic_auth = [_settings.flower_basic_auth.get_secret_value()] if _settings.flower_basic_auth else []
#: Flower shuts workers down and revokes tasks for whoever reaches it, unless told not to.
read_only = _settings.flower_read_only
max_tasks = _settings.flower_max_tasks
natural_time = True
#: Workers that are gone for a day are forgotten, in seconds.
purge_offline_workers = 86_400
persistent = False
tasks_columns = "name,uuid,state,kwargs,received,started,runtime,retries,worker"
