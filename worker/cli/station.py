"""
What a command works with: settings, stores and the Celery app to publish with, opened for one command and closed.

The only module of the command line that knows how they are put together.
"""
