#!/bin/sh
# After a removal configuration and data stay. Only a purge, which dpkg alone has, removes the data. Certificates and keys
# that the operator put into /etc/threeds stay even then, and so does the user, to whom backups may belong.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "${1:-}" = purge ]; then
	rm -rf /var/lib/threeds
fi
