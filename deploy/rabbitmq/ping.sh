#!/bin/sh
# Tell whether the node takes connections: an exit code for a health check.
set -eu
diagnostics=/usr/lib/rabbitmq/bin/rabbitmq-diagnostics
[ -x "$diagnostics" ] || diagnostics=rabbitmq-diagnostics
exec "$diagnostics" -q check_port_connectivity
