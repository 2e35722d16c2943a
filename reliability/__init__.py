"""Pure values and decisions: what failed, what follows, what is owed. Knows no Celery, no Redis and no clock."""
