#!/bin/sh
# Stops the server before the package is removed, and leaves it running before an upgrade. dpkg calls it with a word, rpm
# with how many releases stay.
set -e

case "${1:-}" in
upgrade | failed-upgrade | deconfigure | 1) exit 0 ;;
esac
units='threeds.service threeds-api.socket threeds-results.socket threeds-browser.socket threeds-console.socket'
if [ -d /run/systemd/system ]; then
	systemctl --quiet stop $units
fi
if command -v systemctl >/dev/null 2>&1; then
	systemctl --quiet disable $units
fi
