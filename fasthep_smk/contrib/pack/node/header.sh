#!/bin/sh
# A Python environment that brings itself along; its packed files follow this text.
#
#   sh THIS [--cache FOLDER] [-- ARGUMENTS OF PYTHON]
#
# Once per machine it unpacks itself into FOLDER, and from then on it only starts Python there.
# FOLDER: $FASTHEP_SMK_CACHE, or fasthep-smk-UID in $TMPDIR or /tmp.
#
# Exit status: that of Python, or
#   64  wrong usage                      75  no room to unpack: another machine may have it
#   76  this file is damaged             77  FOLDER cannot be used, or is somebody else's
#   78  this machine cannot run it
set -u
KEY=@KEY@
MACHINE=@MACHINE@
START=@START@
FIRST=@FIRST@
SIZE=@SIZE@
DIGEST=@DIGEST@

say() { echo "packed environment $KEY: $*" >&2; }
stop() {
    status=$1
    shift
    say "$@"
    [ -z "${boot:-}" ] || rm -rf -- "$boot"
    exit "$status"
}

# A folder that others may write to would let them choose what runs here.
is_private() {
    set -f
    # shellcheck disable=SC2046
    set -- $(ls -ldn -- "$1" 2>/dev/null)
    set +f
    case ${1:-} in d????-??-?*) [ "$3" = "$(id -u)" ] ;; *) false ;; esac
}

# Nor may others rename a folder above it: each is the user's own, or of an account of the system's,
# such as a batch system's, and others cannot write there, unless it is sticky, as /tmp is. In a
# container root may be a user that it does not know.
is_safe_above() {
    above=$(cd -- "$1/.." 2>/dev/null && pwd -P) || return 1
    user=$(id -u) group=$(id -g)
    nobody=$(cat /proc/sys/kernel/overflowuid 2>/dev/null || echo 65534)
    set -- "$above"
    until [ "$above" = / ]; do
        above=${above%/*}
        above=${above:-/}
        set -- "$@" "$above"
    done
    ls -ldn -- "$@" 2>/dev/null | while read -r mode _ owner of _; do
        case $owner in
        "$user" | "$nobody") ;;
        *[!0-9]* | '') exit 1 ;;
        *) [ "$owner" -lt 1000 ] || exit 1 ;;
        esac
        case $mode in
        d????-??-?* | d????????[tT]*) ;;
        d????w??-?*) [ "$owner/$of" = "$user/$group" ] || exit 1 ;;
        *) exit 1 ;;
        esac
    done
}

# Somebody else may have taken the usual name: that keeps nobody from working.
other_cache() {
    for other in "$cache".*; do
        if is_private "$other"; then
            cache=$other
            return
        fi
    done
    cache=$(umask 077 && mktemp -d "$cache.XXXXXX") || stop 77 "cannot make a folder beside $cache"
}

# After a crash of the machine, what was unpacked before may be incomplete on disk.
is_complete() {
    is_private "$root" || return 1
    [ -f "$root/complete" ] || return 1
    read -r host started <"$root/complete" || return 1
    [ "$host" != "$(uname -n)" ] ||
        [ "$started" = "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo unknown)" ]
}

# start FOLDER WHAT...: go on in Python.
start() {
    folder=$1
    shift
    exec "$folder/bin/python" -I -S "$folder/lib/fasthep-smk/start.py" "$KEY" "$cache" \
        "$archive" $((START + FIRST)) "$DIGEST" "$SIZE" "$@"
}

new_boot() {
    number=0
    until mkdir -m 700 -- "$cache/.boot-$KEY-$$-$number" 2>/dev/null; do
        number=$((number + 1))
        [ $number -lt 20 ] || return 1
    done
    boot=$cache/.boot-$KEY-$$-$number
}

unpack_first() {
    new_boot || stop 77 "cannot write in $cache"
    # gzip finds a wrong checksum after it has written everything.
    problem=$({
        tail -c "+$((START + 1))" -- "$archive" 2>/dev/null | head -c "$FIRST" |
            { gzip -dc 2>/dev/null || echo "gzip has failed" >&2; } |
            (cd -- "$boot" && LC_ALL=C tar -xf -; cat >/dev/null)
    } 2>&1)
    case $problem in
    *"No space left"* | *quota*) stop 75 "no room in $cache" ;;
    *"gzip has failed"*) ;;
    *) [ ! -f "$boot/lib/zzz-last" ] || return 0 ;;
    esac
    stop 76 "$archive is damaged: its first part cannot be unpacked"
}

# A job may have no name and no home: programs that ask for them would stop, or write "~".
name_and_home() {
    if [ -z "${LOGNAME:-}${USER:-}" ]; then
        LOGNAME=$(id -un 2>/dev/null) || LOGNAME=uid$(id -u)
        export LOGNAME
    fi
    if [ -z "${HOME:-}" ]; then
        HOME=$cache/home
        export HOME
        mkdir -p -- "$HOME"
    fi
}

main() {
    PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
    export PATH
    # Of this machine's Python, if it has one: nothing of it counts here.
    unset PYTHONHOME PYTHONPATH
    export PYTHONNOUSERSITE=1
    cache=${FASTHEP_SMK_CACHE:-${TMPDIR:-/tmp}/fasthep-smk-$(id -u)}
    usual=yes
    [ -z "${FASTHEP_SMK_CACHE:-}" ] || usual=
    while [ $# -gt 0 ]; do
        case $1 in
        --cache)
            [ -n "${2:-}" ] || stop 64 "$1 needs a value"
            cache=$2 usual=
            shift 2
            ;;
        --)
            shift
            break
            ;;
        *) stop 64 "unknown: $1; usage: [--cache FOLDER] [-- ARGUMENTS OF PYTHON]" ;;
        esac
    done
    [ "$(uname -m)" = "$MACHINE" ] || stop 78 "made for $MACHINE, this machine is $(uname -m)"
    case $0 in */*) archive=$0 ;; *) archive=./$0 ;; esac
    # A cache whose name begins with a dash or has no slash is a path all the same.
    case $cache in /*) ;; *) cache=$(pwd)/$cache ;; esac
    case $cache in *[:\;]*) stop 77 "$cache: no colon or semicolon may be in this path" ;; esac
    (umask 077 && mkdir -p -- "$cache") 2>/dev/null || [ -n "$usual" ] ||
        stop 77 "cannot make the folder $cache"
    is_private "$cache" || [ -z "$usual" ] || other_cache
    is_private "$cache" || stop 77 "$cache belongs to somebody else, or others may write to it"
    is_safe_above "$cache" || stop 77 "others may rename a folder above $cache"
    name_and_home
    root=$cache/$KEY
    # Links of somebody else's, from when the cache was not closed.
    for name in use making; do
        [ ! -h "$cache/$KEY.$name" ] || stop 77 "$cache/$KEY.$name is a link: remove it"
    done
    touch -- "$cache/$KEY.use" 2>/dev/null || stop 77 "cannot write in $cache"
    is_complete && start "$root" - - "$@"
    making=-
    if command -v flock >/dev/null 2>&1; then
        # Only so that many jobs at once do not all unpack the first part; Python locks anyway.
        exec 8>>"$cache/$KEY.making"
        flock 8 && making=8
        if is_complete; then
            exec 8>&-
            start "$root" - - "$@"
        fi
    fi
    unpack_first
    start "$boot" "$boot" "$making" "$@"
}

main "$@"
exit 78
