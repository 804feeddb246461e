# What slurm.sh and htcondor.sh share; sourced by them, never run by itself.
# shellcheck shell=bash
#
# A cluster's processes live below one supervisor, in name spaces of their own:
#
#   supervisor             a mount name space: the view that login and jobs have of this machine
#   └─ first               a process-id name space: when its first process ends, the kernel ends
#      └─ daemons, jobs    all others in it, also a daemon that had detached itself
#
# So nothing is mounted in the machine's own view, no file outside of FOLDER and the cache is
# written, and whatever happens to these scripts, ending two processes ends everything.

# The user whose jobs the cluster runs. It exists inside the cluster's view only.
CLUSTER_USER=physicist
CLUSTER_UID=20001
# A folder that every Debian has, and has empty: within the view, to mount something at.
SPARE=/media

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SCRIPT=$HERE/$(basename "$0")
REPOSITORY=$(cd "$HERE/../.." && pwd)
CACHE=${FASTHEP_SMK_TEST_CACHE:-$REPOSITORY/tests/.cache}

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

require_root_on_debian() {
    [ "$(id -u)" = 0 ] || fail "needs root"
    [ -r /etc/os-release ] || fail "needs Debian"
    # shellcheck disable=SC1091
    [ "$(. /etc/os-release && echo "$ID")" = debian ] || fail "needs Debian"
}

# install COMMAND PACKAGE...: install packages unless their command is there already.
install_packages() {
    local missing=$1
    shift
    command -v "$missing" >/dev/null && return
    say "installing $*"
    mkdir -p "$CACHE"
    # RUNLEVEL=1 keeps the packages from starting daemons of the machine's own. Two apt at a time
    # would fail: tests/support/programs.py takes the same lock.
    (flock 8 && apt-get update && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "$@") \
        8>/tmp/fasthep-smk-test-programs.lock >"$CACHE/apt.log" 2>&1 ||
        { tail -n 20 "$CACHE/apt.log" >&2 && fail "could not install $*"; }
}

# free_ports NUMBER: the first of so many neighbouring TCP ports that nobody listens on.
free_ports() {
    local first port attempt
    for attempt in {1..50}; do
        first=$((20000 + (RANDOM % 1000) * 10))
        for ((port = first; port < first + $1; port++)); do
            # shellcheck disable=SC2188
            if (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then continue 2; fi
        done
        echo "$first"
        return
    done
    fail "found no free ports in $attempt attempts"
}

# A process id alone may have been given to another process since; its start time tells.
identity_of() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # shellcheck disable=SC2086
    set -- $1 ${stat##*) }
    [ "$2" != Z ] && echo "$1 ${21}"
}

# running NAME: whether the process recorded in FOLDER/run/NAME.pid is still the one that runs.
running() {
    local record
    record=$(cat "$FOLDER/run/$1.pid" 2>/dev/null) && [ -n "$record" ] &&
        [ "$(identity_of "${record%% *}")" = "$record" ]
}

pid_of() { cut -d ' ' -f 1 "$FOLDER/run/$1.pid"; }

# pause SECONDS: wait for what nobody writes, which starts no process as "sleep" does.
pause() {
    [ -n "${SILENT:-}" ] || exec {SILENT}<> <(:)
    read -r -t "$1" -u "$SILENT" || true
}

# within SECONDS COMMAND...: wait until the command succeeds, or until time is up.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        pause 0.2
    done
}

gone() { ! running "$1"; }

stop() {
    local name
    for name in supervisor first; do
        if running "$name"; then kill -KILL "$(pid_of "$name")" 2>/dev/null || true; fi
    done
    # The first process is gone only after everything else in its name space is.
    for name in supervisor first; do
        within 30 gone "$name" || fail "process $(pid_of "$name") does not end"
        rm -f "$FOLDER/run/$name.pid"
    done
}

# start: run this script's "supervise" in the background, cut off from whoever called.
start() {
    setsid unshare --mount --propagation private \
        "$SCRIPT" supervise "$FOLDER" </dev/null >"$FOLDER/log/cluster.log" 2>&1 9>&- &
    disown
    within 20 running first || not_started
    write_login
}

not_started() {
    say "the cluster did not start; the ends of its logs:"
    tail -n 15 "$FOLDER"/log/* >&2 || true
    stop
    exit 1
}

# supervise: prepare the view, then run "SCRIPT first" until that ends, or the owner does.
supervise() {
    local owner=${FASTHEP_SMK_TEST_OWNER:-} child
    add_user /etc
    open_the_way
    prepare_view
    setpriv --pdeathsig KILL unshare --pid --fork --kill-child "$SCRIPT" first "$FOLDER" &
    child=$!
    identity_of "$BASHPID" >"$FOLDER/run/supervisor.pid"
    while [ -d "/proc/$child" ]; do
        [ -z "$owner" ] || [ -d "/proc/$owner" ] || break
        pause 1
    done
    kill -KILL "$child" 2>/dev/null || true
}

# first: become the first process of the new process-id name space.
first() {
    local id rest
    # /proc is still the machine's, so this is the id by which others know this process.
    read -r id rest </proc/self/stat
    identity_of "$id" >"$FOLDER/run/first.pid"
    # From here on in a view of its own, so that login shells keep a /proc that has them in it.
    exec unshare --mount --propagation private "$SCRIPT" daemons "$FOLDER"
}

# add_user ETC: add the user to the accounts in this folder, in this view only. The view gets a copy
# of the whole folder: a single file that is mounted comes off when a package adds an account.
add_user() {
    local name etc
    mkdir -p "$FOLDER/home" "$FOLDER/shared"
    chown "$CLUSTER_UID:$CLUSTER_UID" "$FOLDER/home" "$FOLDER/shared"
    etc=$(mktemp -d "$FOLDER/run/etc.XXXX")
    chmod 755 "$etc"
    # A package or a command that adds an account may remove a file of its own meanwhile.
    cp -a "$1/." "$etc" || [ -s "$etc/passwd" ]
    for name in passwd group; do
        sed -i "/^$CLUSTER_USER:/d" "$etc/$name"
        case $name in
        passwd) echo "$CLUSTER_USER:x:$CLUSTER_UID:$CLUSTER_UID::$FOLDER/home:/bin/bash" ;;
        group) echo "$CLUSTER_USER:x:$CLUSTER_UID:" ;;
        esac >>"$etc/$name"
    done
    mount --bind "$etc" "$1"
}

as_user() { setpriv --reuid "$CLUSTER_UID" --regid "$CLUSTER_UID" --clear-groups -- "$@"; }

# Python, the repository or FOLDER may lie below a folder that only root may enter (/root with
# pyenv, a checkout of root's, pytest's temporary folders). In this view the user may enter it.
open_the_way() {
    local path part folder python
    python=$(command -v "${PYTHON:-python3}" || true)
    for path in "$FOLDER" "$REPOSITORY" "$CACHE" "$python" "$(readlink -f "$python")"; do
        folder=
        while IFS= read -r -d / part; do
            folder=$folder${part:+/$part}
            [ -z "$folder" ] || as_user test -x "$folder" || open_folder "$folder"
        done <<<"${path%/*}/"
    done
}

# open_folder PATH: cover a folder with one that all may enter and that shows the same entries.
open_folder() {
    local entry copy
    # Seen at another place for a moment: one that every Debian has.
    mount --rbind "$1" "$SPARE"
    mount -t tmpfs -o mode=755 tmpfs "$1"
    for entry in "$SPARE"/* "$SPARE"/.[!.]*; do
        copy=$1/${entry##*/}
        if [ -L "$entry" ]; then
            cp -P "$entry" "$copy"
        elif [ -d "$entry" ]; then
            mkdir "$copy"
            mount --rbind "$entry" "$copy"
        elif [ -e "$entry" ]; then
            : >"$copy"
            mount --bind "$entry" "$copy"
        fi
    done
    umount --lazy "$SPARE"
}

# login COMMAND...: run a command as the user, in the cluster's view.
login() {
    running supervisor || fail "no cluster runs in $FOLDER"
    [ $# -gt 0 ] || set -- bash
    exec "$FOLDER/login" "$@"
}

# write_login: the same as a script of one command, which costs a quarter of this one's time: tests
# ask many times a second what is in a queue. Each command becomes the next, so whoever ends this
# process ends the user's.
write_login() {
    local variables
    mapfile -t variables < <(login_variables)
    {
        echo "#!/bin/sh"
        # shellcheck disable=SC2016
        printf '%q ' exec nsenter --target "$(pid_of supervisor)" --mount --root -- \
            env --chdir=/ HOME="$FOLDER/home" USER="$CLUSTER_USER" LOGNAME="$CLUSTER_USER"
        [ ${#variables[@]} = 0 ] || printf '"%s" ' "${variables[@]}"
        printf '%q ' setpriv --reuid "$CLUSTER_UID" --regid "$CLUSTER_UID" --clear-groups -- \
            sh -c 'cd "$1" && shift && exec "$@"' login
        # shellcheck disable=SC2016
        echo '"$PWD" "$@"'
    } >"$FOLDER/login.new"
    chmod 700 "$FOLDER/login.new"
    mv "$FOLDER/login.new" "$FOLDER/login"
}

ready_or_gone() { is_ready || gone first; }

up() {
    if running supervisor && running first && within 30 is_ready; then
        describe
        return
    fi
    stop
    install
    rm -rf "${FOLDER:?}"/{etc,log,run,state}
    mkdir -p "$FOLDER"/{log,run,state}
    chmod 755 "$FOLDER" "$FOLDER"/{log,run,state}
    configure
    start
    within 60 ready_or_gone || not_started
    running first || not_started
    describe
}

# main ARGUMENTS...: the script defines usage, install, configure, prepare_view, daemons, is_ready,
# login_variables (lines NAME=VALUE, for a shell to put into quotes) and describe.
main() {
    local command=${1:-} folder=${2:-}
    if [ -z "$command" ] || [ -z "$folder" ]; then usage; fi
    shift 2
    FOLDER=$(realpath -m "$folder")
    case $command in
    up | down)
        require_root_on_debian
        mkdir -p "$FOLDER"
        exec 9>"$FOLDER/lock"
        flock 9
        if [ "$command" = up ]; then up; else stop; fi
        ;;
    run)
        require_root_on_debian
        login "$@"
        ;;
    supervise | first | daemons) "$command" ;;
    *) usage ;;
    esac
}
