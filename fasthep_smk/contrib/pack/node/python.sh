#!/bin/sh
# Python of a packed environment. Its loader and C library are this machine's if they are not
# older than those it was packed with, and else those that were packed with it.
case $0 in */*) root=${0%/*}/.. ;; *) root=$(dirname -- "$(command -v -- "$0")")/.. ;; esac
root=$(cd -- "$root" && pwd -P) || exit 78
found=$(getconf GNU_LIBC_VERSION 2>/dev/null)
minor=0
case $found in "glibc 2."*) minor=${found#glibc 2.} minor=${minor%%.*} ;; esac
if [ "${FASTHEP_SMK_LIBC:-}" != packed ] && [ -x @LOADER@ ] && [ "$minor" -ge @MINOR@ ]; then
    exec @LOADER@ --argv0 "$root/bin/python" --library-path "$root/lib" \
        "$root/libexec/python" "$@"
fi
exec "$root/libc/@NAME@" --argv0 "$root/bin/python" --library-path "$root/libc:$root/lib" \
    "$root/libexec/python" "$@"
