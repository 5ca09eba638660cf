#!/bin/sh
# Runs its arguments with the first Python that is new enough and whole. It asks each one instead of
# looking for it: a pyenv shim can exist and fail, and Debian's python3 can come without ensurepip.
# PYTHON=/some/python, when set, is the only one that is tried.
set -u
for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        exec "$candidate" "$@"
    fi
done
echo "frontlog needs Python 3.11 or newer, with its venv module; tried: ${PYTHON:-python3.13 python3.12 python3.11 python3}." >&2
echo "Install one (on Debian or Ubuntu: python3 and python3-venv), or name it: make PYTHON=/path/to/python3" >&2
exit 1
