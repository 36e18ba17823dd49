#!/bin/sh
# Before the files of the package are unpacked, makes the user that the server runs as: some files belong to its group.
set -e

if id -u threeds >/dev/null 2>&1; then
	exit 0
fi
if command -v useradd >/dev/null 2>&1; then
	useradd --system --user-group --home-dir /var/lib/threeds --no-create-home --shell /usr/sbin/nologin \
		--comment '3-D Secure server' threeds
else # as in Alpine
	addgroup -S threeds
	adduser -S -D -H -h /var/lib/threeds -s /sbin/nologin -G threeds -g '3-D Secure server' threeds
fi
