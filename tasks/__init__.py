"""What is done in one attempt, and the thin Celery shells that carry it out. Never imports `worker`."""
