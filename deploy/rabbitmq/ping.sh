#!/bin/sh
# Tell whether the node takes connections: an exit code for a health check.
set -eu
diagnostics=/usr/lib/rabbitmq/bin/rabbitmq-diagnostics
[ -x "$diagnostics" ] || diagnostics=rabbitmq-diagnostics
# The tool is an Erlang node for a moment, which listens as start.sh tells.
export ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_CTL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
exec "$diagnostics" -q --node rabbit@localhost check_port_connectivity
