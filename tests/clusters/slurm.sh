#!/bin/bash
# A Slurm of four nodes on this machine, for tests.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

NODES=(std1 std2 big1 gpu1)

usage() {
    cat >&2 <<END
usage: slurm.sh up FOLDER                  start it; all files are written into FOLDER
       slurm.sh run FOLDER [COMMAND...]    run a command (or a shell) as its user, physicist
       slurm.sh down FOLDER                stop it, with all its jobs

Sizes are claims: the nodes share this machine's processors and memory.
  partition    nodes       processors    memory    also
  standard     std1 std2   4 each        16 GB     used if none is asked for
  highmem      big1        8             128 GB
  gpu          gpu1        4             16 GB     one GPU
  spot         std2        4             16 GB     jobs are requeued for those of "standard"
  short        std1        4             16 GB     at most two minutes

A file FOLDER/run/slurmctld.off kills the controller, one with the name of a node (std1.off) its
daemon and all jobs on it; the daemon starts again when the file is gone.
FASTHEP_SMK_TEST_OWNER=PID stops it when that process ends.
FASTHEP_SMK_TEST_BARE=1 lets the nodes see neither the user's folder, nor this repository, nor any
Python; of FOLDER/spool they see what the user does.
END
    exit 2
}

install() { install_packages slurmctld slurmctld slurmd slurm-client munge; }

configure() {
    local host port here
    host=$(hostname -s)
    port=$(free_ports 10)
    here="NodeHostname=$host NodeAddr=127.0.0.1"
    # A process of Slurm's trusts whoever has the key, so it is this cluster's own.
    (umask 077 && dd if=/dev/urandom of="$FOLDER/state/munge.key" bs=128 count=1 status=none)
    mkdir -p "$FOLDER/etc"
    cat >"$FOLDER/etc/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$FOLDER/state/munge.socket
StateSaveLocation=$FOLDER/state/slurmctld
SlurmctldPidFile=$FOLDER/run/slurmctld.pid
SlurmctldLogFile=$FOLDER/log/slurmctld.log
SlurmdSpoolDir=$FOLDER/state/slurmd-%n
SlurmdPidFile=$FOLDER/run/slurmd-%n.pid
SlurmdLogFile=$FOLDER/log/slurmd-%n.log

# Several nodes on one machine, larger than it is, without control groups.
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2

# No accounting, as on small sites. Memory is still watched, every second.
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill,UsePss
KillWait=2
# How long "scontrol show job" remembers a job.
MinJobAge=3600

# Start a job as soon as it could.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
DefMemPerCPU=1000

GresTypes=gpu
NodeName=std1 $here Port=$((port + 1)) CPUs=4 RealMemory=16000
NodeName=std2 $here Port=$((port + 2)) CPUs=4 RealMemory=16000
NodeName=big1 $here Port=$((port + 3)) CPUs=8 RealMemory=128000
NodeName=gpu1 $here Port=$((port + 4)) CPUs=4 RealMemory=16000 Gres=gpu:1
PartitionName=standard Nodes=std[1-2] PriorityTier=10 PreemptMode=OFF Default=YES
PartitionName=highmem Nodes=big1 PriorityTier=10 PreemptMode=OFF
PartitionName=gpu Nodes=gpu1 PriorityTier=10 PreemptMode=OFF
PartitionName=short Nodes=std1 PriorityTier=10 PreemptMode=OFF MaxTime=00:02:00
PartitionName=spot Nodes=std2 PriorityTier=1 PreemptMode=REQUEUE
END
    # Any device does as a GPU.
    echo "NodeName=gpu1 Name=gpu File=/dev/null" >"$FOLDER/etc/gres.conf"
}

# In the cluster's view the configuration is where Slurm looks for it, for Snakemake removes
# variables named SLURM_... from the environment of its jobs.
prepare_view() { mount --bind "$FOLDER/etc" /etc/slurm; }

login_variables() { :; }

daemons() {
    local node
    mount -t proc proc /proc
    munged --foreground --socket "$FOLDER/state/munge.socket" \
        --key-file "$FOLDER/state/munge.key" --pid-file "$FOLDER/run/munged.pid" \
        --seed-file "$FOLDER/state/munge.seed" --log-file "$FOLDER/log/munged.log" &
    within 10 test -S "$FOLDER/state/munge.socket"
    accounts
    keep slurmctld slurmctld -D &
    if [ -n "${FASTHEP_SMK_TEST_BARE:-}" ]; then
        mkdir -p "$FOLDER/spool"
        chown "$CLUSTER_UID:$CLUSTER_UID" "$FOLDER/spool"
        for node in "${NODES[@]}"; do
            keep "$node" unshare --mount --propagation private "$SCRIPT" bare "$FOLDER" "$node" &
        done
    else
        for node in "${NODES[@]}"; do keep "$node" slurmd -D -N "$node" & done
    fi
    # One that ends takes the others along: a cluster is whole, or is seen not to run.
    wait -n
}

# What is there before the controller: nothing, but for slurm_accounts.sh.
accounts() { :; }

# bare NODE: its daemon, in a view of the machine without Python and without the user's files.
bare() {
    local path python
    python=$(command -v "${PYTHON:-python3}")
    for path in "$FOLDER/shared" "$REPOSITORY" "$(prefix_of "$python")" \
        "$(prefix_of "$(readlink -f "$python")")"; do
        # What lies below another one is gone with it.
        [ "$path" = /usr ] || [ ! -d "$path" ] || mount -t tmpfs tmpfs "$path"
    done
    for path in /usr/bin/python3* /usr/local/bin/python3*; do
        [ ! -f "$path" ] || mount --bind /dev/null "$path"
    done
    exec slurmd -D -N "$1"
}

prefix_of() { dirname "$(dirname "$1")"; }

# keep NAME COMMAND...: run a daemon until it ends by itself. It is killed when a file
# FOLDER/run/NAME.off appears (which then says so), and starts again when that is gone.
keep() {
    local name=$1 off=$FOLDER/run/$1.off pid
    shift
    while :; do
        "$@" &
        pid=$!
        until [ -e "$off" ]; do
            kill -0 "$pid" 2>/dev/null || return 0
            pause 0.5
        done
        kill -KILL "$pid"
        wait "$pid" || true
        kill_jobs_on "$name"
        echo killed >"$off"
        while [ -e "$off" ]; do pause 0.5; done
    done
}

# kill_jobs_on NODE: what runs there dies with it, and nobody is left to tell the controller.
kill_jobs_on() {
    local process found=() watchers=() parent
    for process in /proc/[0-9]*; do
        grep -qsxz "SLURMD_NODENAME=$1" "$process/environ" || continue
        found+=("${process#/proc/}")
        parent=$(awk '$1 == "PPid:" { print $2 }' "$process/status" 2>/dev/null) || continue
        [ "$(cat "/proc/$parent/comm" 2>/dev/null)" = slurmstepd ] && watchers+=("$parent")
    done
    kill -KILL "${watchers[@]}" "${found[@]}" 2>/dev/null || true
}

# Ready when every node answers, busy or not.
is_ready() {
    local nodes
    nodes=$(SLURM_CONF=$FOLDER/etc/slurm.conf timeout 5 \
        sinfo -h -N -t idle,mixed,allocated,completing -o '%N %T' 2>/dev/null) &&
        # A state that ends in "*" is that of a node which does not answer.
        [ "$(grep -v '\*$' <<<"$nodes" | sort -u | wc -l)" = "${#NODES[@]}" ]
}

describe() { echo "export SLURM_CONF=$FOLDER/etc/slurm.conf"; }

# slurm_accounts.sh changes some of these functions, and then does the same.
begin() {
    if [ "${1:-}" = bare ]; then
        FOLDER=$2
        bare "$3"
    else
        main "$@"
    fi
}

[ "${BASH_SOURCE[0]}" != "$0" ] || begin "$@"
