"""What a command works with: the settings, the stores and the Celery app to publish with, opened once and closed."""
