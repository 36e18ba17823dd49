#!/bin/sh
# After an installation says what to do next. After an upgrade restarts a server that runs: its sockets are systemd's, so
# connections wait meanwhile. dpkg calls it with "configure" and the release before, rpm with how many releases are there.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart threeds.service || echo 'threeds: the new release does not start; see journalctl -u threeds' >&2
fi
if [ "${1:-}" = 1 ] || { [ "${1:-}" = configure ] && [ -z "${2:-}" ]; }; then
	cat <<'TEXT'
threeds is installed and does not run yet. Write your configuration into /etc/threeds/threeds.yaml, put the certificates
and keys that it names next to it, and start the server:
    systemctl enable --now threeds-api.socket threeds-results.socket threeds-browser.socket threeds-console.socket threeds
To try it without a configuration: threeds sandbox
TEXT
fi
