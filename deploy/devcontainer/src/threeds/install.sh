#!/bin/sh
# Installs the program threeds of a release for Linux or macOS, and compares it with the sums of the release.
#
#   VERSION   the release, such as 0.1.0
#   BIN_DIR   where the program goes, by default /usr/local/bin
#   RELEASES  where releases are, by default on GitHub
set -eu

fail() {
	echo "threeds: $1" >&2
	exit 1
}

version=${VERSION#v}
releases=${RELEASES:-https://github.com/openthreeds/threeds/releases/download}
case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) fail "there is no archive that this script can install on $(uname -s): want Linux or macOS" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "there is no archive for the processor $(uname -m): want x86_64 or arm64" ;;
esac
if ! command -v curl >/dev/null; then
	command -v apt-get >/dev/null || fail "curl is missing: install it first"
	apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates curl >/dev/null
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
archive=threeds_${version}_${os}_${arch}.tar.gz
for file in "$archive" SHA256SUMS; do
	curl --fail --silent --show-error --location --output "$dir/$file" "$releases/v$version/$file" ||
		fail "$releases/v$version/$file cannot be fetched: is there a release $version?"
done
cd "$dir"
grep "[ *]$archive\$" SHA256SUMS >sum || fail "SHA256SUMS of release $version does not name $archive"
if command -v sha256sum >/dev/null; then check="sha256sum --check --quiet"; else check="shasum --algorithm 256 --check --quiet"; fi
$check sum || fail "$archive is not the file of the release: its sum differs"
tar -xzf "$archive"
mkdir -p "${BIN_DIR:-/usr/local/bin}"
install -m 0755 "${archive%.tar.gz}/threeds" "${BIN_DIR:-/usr/local/bin}/threeds"
"${BIN_DIR:-/usr/local/bin}/threeds" version
