#!/usr/bin/env bash
# language_server.sh: install the language server for YAML that editors use, once, into the cache of
# the tests; print the command that starts it. Node.js is installed if it is missing (root on Debian).
set -euo pipefail
# shellcheck source=../clusters/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../clusters/common.sh"

# The last one for the Node.js of Debian 12 and 13.
VERSION=1.25.0
folder=$CACHE/yaml-language-server-$VERSION

if [ ! -d "$folder" ]; then
    if ! command -v npm >/dev/null; then
        require_root_on_debian
        install_packages npm nodejs npm
    fi
    mkdir -p "$CACHE"
    rm -rf "$folder.new"
    npm install --prefix "$folder.new" --no-audit --no-fund --ignore-scripts --loglevel=error \
        "yaml-language-server@$VERSION" >&2
    mv "$folder.new" "$folder"
fi
echo "$folder/node_modules/yaml-language-server/bin/yaml-language-server"
