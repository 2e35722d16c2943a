"""The Celery app: settings, composition root, consumer, due pump, beat schedule, observability and command line."""
