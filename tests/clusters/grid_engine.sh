#!/bin/bash
# A Grid Engine with one node on this machine, for tests.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Where Debian has its programs, in folders that are named after the processor.
DEBIAN=/var/lib/gridengine
ADMIN=sgeadmin

usage() {
    cat >&2 <<END
usage: grid_engine.sh up FOLDER                  start it; all files are written into FOLDER
       grid_engine.sh run FOLDER [COMMAND...]    run a command (or a shell) as its user, physicist
       grid_engine.sh down FOLDER                stop it, with all its jobs

Sizes are claims: the queues share this machine's processors and memory.
  queue         slots    also
  standard.q    4        used if none is asked for
  large.q       2        the only one for jobs that ask for its name
The node has memory_mb=16000, disk_mb=100000 and gpu=1 to give to jobs, and the parallel environment smp.

FASTHEP_SMK_TEST_OWNER=PID stops it when that process ends.
END
    exit 2
}

install() { install_packages sge_qmaster gridengine-master gridengine-exec gridengine-client; }

configure() {
    local common=$FOLDER/sge/default/common port name
    port=$(free_ports 2)
    rm -rf "$FOLDER/sge"
    mkdir -p "$common" "$FOLDER"/state/{qmaster/job_scripts,execd,spool}
    for name in bin lib util utilbin; do ln -s "$DEBIAN/$name" "$FOLDER/sge/$name"; done
    hostname >"$common/act_qmaster"
    cat >"$common/bootstrap" <<END
admin_user              $ADMIN
default_domain          none
ignore_fqdn             true
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         $FOLDER/state/spool
binary_path             /usr/sbin
qmaster_spool_dir       $FOLDER/state/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
END
    cat >"$FOLDER/environment" <<END
SGE_ROOT=$FOLDER/sge
SGE_CELL=default
SGE_QMASTER_PORT=$port
SGE_EXECD_PORT=$((port + 1))
END
    # Job numbers, started anew, are those of jobs that an earlier one had.
    sed -e "s|^execd_spool_dir .*|execd_spool_dir $FOLDER/state/execd|" \
        -e "s|^gid_range .*|gid_range 21000-21100|" \
        -e "s|^min_uid .*|min_uid 0|" -e "s|^min_gid .*|min_gid 0|" \
        -e "s|^load_report_time .*|load_report_time 00:00:02|" \
        -e "s|^mailer .*|mailer /bin/true|" \
        -e "s|^reporting_params .*|reporting_params accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00 joblog=false|" \
        /usr/share/gridengine/default-configuration >"$FOLDER/state/configuration"
    chown -R "$ADMIN:" "$FOLDER/sge" "$FOLDER/state"
}

# Its daemons compare the name of this machine with that of its address; /etc is a copy in this view.
prepare_view() {
    printf '127.0.0.1 %s localhost\n' "$(hostname)" | cat - /etc/hosts >/etc/hosts.new
    mv /etc/hosts.new /etc/hosts
}

login_variables() { cat "$FOLDER/environment"; }

# engine COMMAND...: with this cluster's settings; its daemons do not go into the background.
engine() { env $(cat "$FOLDER/environment") SGE_ND=1 "$@"; }

spool() { setpriv --reuid "$ADMIN" --regid "$ADMIN" --clear-groups env $(cat "$FOLDER/environment") "$@"; }

daemons() {
    local lib=/usr/lib/gridengine resources=/usr/share/gridengine/util/resources
    mount -t proc proc /proc
    spool "$lib/spoolinit" berkeleydb libspoolb "$FOLDER/state/spool" init
    spool "$lib/spooldefaults" configuration "$FOLDER/state/configuration"
    spool "$lib/spooldefaults" complexes "$resources/centry"
    spool "$lib/spooldefaults" usersets "$resources/usersets"
    spool "$lib/spooldefaults" managers root "$ADMIN"
    engine sge_qmaster &
    within 20 engine qconf -sconf
    describe_node
    engine sge_execd &
    # One that ends takes the other along: a cluster is whole, or is seen not to run.
    wait -n
}

# described WHAT NAME=VALUE...: lines of one of its configurations, with other values.
described() {
    local text item
    text=$(engine qconf "$1" ${2:+"$2"})
    shift 2
    for item in "$@"; do
        text=$(awk -v key="${item%%=*}" -v value="${item#*=}" \
            '$1 == key { print key, value; skip = /\\$/; next } skip { skip = /\\$/; next } { print }' <<<"$text")
    done
    echo "$text"
}

describe_node() {
    local node work=$FOLDER/state
    node=$(hostname)
    engine qconf -ah "$node" || true
    engine qconf -as "$node"
    engine qconf -sc >"$work/complexes"
    cat >>"$work/complexes" <<END
memory_mb  mem_req  INT  <=  YES  JOB  0  0
disk_mb    disk_req INT  <=  YES  JOB  0  0
gpu        gpu      INT  <=  YES  JOB  0  0
END
    engine qconf -Mc "$work/complexes"
    described -se template hostname="$node" \
        complex_values=memory_mb=16000,disk_mb=100000,gpu=1 |
        grep -vE '^(load_values|processors|usage_scaling_x) ' >"$work/host"
    engine qconf -Ae "$work/host"
    cat >"$work/smp" <<END
pe_name             smp
slots               999
user_lists          NONE
xuser_lists         NONE
start_proc_args     NONE
stop_proc_args      NONE
allocation_rule     \$pe_slots
control_slaves      FALSE
job_is_first_task   TRUE
urgency_slots       min
accounting_summary  FALSE
qsort_args          NONE
END
    engine qconf -Ap "$work/smp"
    queue standard.q 4
    queue large.q 2
    described -ssconf "" schedule_interval=0:0:1 flush_submit_sec=1 flush_finish_sec=1 \
        job_load_adjustments=NONE >"$work/scheduler"
    engine qconf -Msconf "$work/scheduler"
}

# queue NAME SLOTS
queue() {
    described -sq "" qname="$1" hostlist="$(hostname)" slots="$2" pe_list=smp \
        load_thresholds=NONE shell=/bin/sh shell_start_mode=unix_behavior notify=00:00:02 \
        >"$FOLDER/state/queue"
    engine qconf -Aq "$FOLDER/state/queue"
}

# Ready when its node has told of itself.
is_ready() {
    engine timeout 5 qstat -f 2>/dev/null | awk '/^large.q/ { found = $3 != "" && $4 != "-NA-" && NF == 5 } END { exit !found }'
}

describe() { sed 's/^/export /' "$FOLDER/environment"; }

main "$@"
