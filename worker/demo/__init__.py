"""
The whole stack on one machine for one run: server, rail, worker, beat and Flower, fed with the example file.

It only calls what an operator calls (`chio-worker`, `celery`), reads what they print, and checks that the numbers add
up. `python -m worker.demo` is `make demo`.
"""
