"""
The whole stack on one machine for one run: server, rail, partners, worker, beat and Flower, fed with example files.

It only calls what an operator calls (`chio-worker`, `celery`), reads what they print, and checks that the numbers add
up. `python -m worker.demo` is `make demo`.
"""
