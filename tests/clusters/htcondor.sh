#!/bin/bash
# An HTCondor pool of three slots on this machine, for tests.
#
# Debian 12 has no package of HTCondor, so the daemons run in a tree of Debian 13. Jobs run on this
# machine's own files, as they would on a pool with a shared file system: HTCondor itself changes
# their root folder (NAMED_CHROOT). A job with "+BareNode = True" stays in the tree of Debian 13,
# which has neither Python nor any of this machine's files: a pool that shares nothing.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SLOTS=3
# As whom its daemons run that need not be root.
CONDOR_UID=20002
RELEASE=trixie
TREE=$CACHE/htcondor-$RELEASE
# Where jobs have their scratch folders.
EXECUTE=$SPARE/execute

usage() {
    cat >&2 <<END
usage: htcondor.sh up FOLDER                  start it; all files are written into FOLDER
       htcondor.sh run FOLDER [COMMAND...]    run a command (or a shell) as its user, physicist
       htcondor.sh down FOLDER                stop it, with all its jobs

Sizes are claims: the slots share this machine's processors and memory.
  slot     processors    memory    also
  slot1    8             16 GB
  slot2    8             128 GB
  slot3    4             16 GB     one GPU

FASTHEP_SMK_TEST_CACHE=FOLDER keeps the tree, 0.2 GB; tests/.cache if not given.
FASTHEP_SMK_TEST_OWNER=PID stops it when that process ends.
END
    exit 2
}

install() {
    [ ! -d "$TREE" ] || return 0
    say "unpacking HTCondor below $CACHE"
    mkdir -p "$CACHE"
    "$REPOSITORY/tests/support/debian.sh" "$RELEASE" "$TREE" \
        base-files base-passwd bash coreutils condor dash grep gzip sed tar util-linux \
        >"$CACHE/htcondor.log" 2>&1 ||
        { tail -n 20 "$CACHE/htcondor.log" >&2 && fail "could not unpack HTCondor"; }
}

configure() {
    local port tool
    port=$(free_ports 1)
    mkdir -p "$FOLDER"/state/{spool,lock} "$FOLDER"/{bin,tokens}
    # What the user's commands need.
    cat >"$FOLDER/condor_config" <<END
CONDOR_HOST = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:$port
UID_DOMAIN = test
FILESYSTEM_DOMAIN = test
SEC_DEFAULT_AUTHENTICATION = REQUIRED
TRUST_DOMAIN = test
SEC_DEFAULT_AUTHENTICATION_METHODS = IDTOKENS
SEC_TOKEN_DIRECTORY = $FOLDER/tokens
RELEASE_DIR = /usr
LOCAL_DIR = $FOLDER/state
LOG = $FOLDER/log
SPOOL = $FOLDER/state/spool
LOCK = $FOLDER/state/lock
# Only the daemons' view has a user condor.
CONDOR_IDS = $CONDOR_UID.$CONDOR_UID
END
    cat "$FOLDER/condor_config" - >"$FOLDER/daemons_config" <<END
EXECUTE = $EXECUTE
RUN = $FOLDER/run
LIB = /usr/lib/condor
LIBEXEC = /usr/libexec/condor
SHARE = /usr/share/condor
# Daemons know each other by who made a file; what newer clients offer there differs.
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, IDTOKENS
SEC_TOKEN_POOL_SIGNING_KEY_FILE = $FOLDER/state/key
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
DAEMON_LIST = MASTER SHARED_PORT COLLECTOR NEGOTIATOR SCHEDD STARTD
USE_SHARED_PORT = True
SHARED_PORT_PORT = $port
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_ADMINISTRATOR = *
ALLOW_DAEMON = *
TRUST_UID_DOMAIN = True
SOFT_UID_DOMAIN = True
STARTER_ALLOW_RUNAS_OWNER = True
# Otherwise the master changes settings of the machine's kernel.
ENABLE_KERNEL_TUNING = False

NUM_CPUS = 20
MEMORY = 160000
DISK = 100000000
MACHINE_RESOURCE_GPUs = GPU-test
SLOT_TYPE_1 = cpus=8, mem=16000, gpus=0, disk=30%
SLOT_TYPE_2 = cpus=8, mem=128000, gpus=0, disk=30%
SLOT_TYPE_3 = cpus=4, mem=16000, gpus=1, disk=30%
SLOT_TYPE_1_PARTITIONABLE = True
SLOT_TYPE_2_PARTITIONABLE = True
SLOT_TYPE_3_PARTITIONABLE = True
NUM_SLOTS_TYPE_1 = 1
NUM_SLOTS_TYPE_2 = 1
NUM_SLOTS_TYPE_3 = 1
SUSPEND = False
PREEMPT = False
KILL = False
RUNBENCHMARKS = 0
# The GPU waits for jobs that ask for one, the large slot for those that fit nowhere else.
START = (TotalSlotGPUs == 0 || TARGET.RequestGPUs > 0) && \\
    (TotalSlotMemory <= 16000 || TARGET.RequestMemory > 16000)
# A job that takes more memory than it asked for is put on hold, within seconds.
use POLICY : HOLD_IF_MEMORY_EXCEEDED
POLLING_INTERVAL = 1
PROCD_MAX_SNAPSHOT_INTERVAL = 1
STARTER_INITIAL_UPDATE_INTERVAL = 1

# Start a job as soon as it could, and tell soon what became of it.
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 2
SCHEDD_MIN_INTERVAL = 1
UPDATE_INTERVAL = 5
JOB_START_DELAY = 0
STARTER_UPDATE_INTERVAL = 2
SHADOW_QUEUE_UPDATE_INTERVAL = 2

# Where jobs run.
NAMED_CHROOT = machine=/machine
JOB_TRANSFORM_NAMES = SharedNode
JOB_TRANSFORM_SharedNode @=end
    REQUIREMENTS BareNode =!= True
    SET RequestedChroot "machine"
@end
BASE_CGROUP =
USE_PID_NAMESPACES = False
# HTCondor looks in the tree whether it may execute the job's program, which may only exist on this
# machine; env is in both.
USER_JOB_WRAPPER = /usr/bin/env
# A bare node's job finds empty folders of its own there.
MOUNT_UNDER_SCRATCH = ifThenElse(BareNode =?= True, "/machine,$FOLDER,/tmp", "")
END
    # The commands of the pool, on this machine, with the libraries of their own Debian.
    local lib=$TREE/usr/lib
    for tool in "$TREE"/usr/bin/condor_*; do
        [ "$(head -c 4 "$tool" | tail -c 3)" = ELF ] || continue
        cat >"$FOLDER/bin/${tool##*/}" <<END
#!/bin/sh
exec $(echo "$lib"/*-linux-gnu/ld-linux-*.so.*) \\
    --library-path $lib:$(echo "$lib"/*-linux-gnu) $tool "\$@"
END
        chmod +x "$FOLDER/bin/${tool##*/}"
    done
    # By this token the pool knows the user.
    (umask 077 && dd if=/dev/urandom of="$FOLDER/state/key" bs=64 count=1 status=none)
    (umask 077 && CONDOR_CONFIG=$FOLDER/daemons_config "$FOLDER/bin/condor_token_create" \
        -identity "$CLUSTER_USER@test" >"$FOLDER/tokens/$CLUSTER_USER")
    chown -R "$CLUSTER_UID:$CLUSTER_UID" "$FOLDER/tokens"
}

prepare_view() { :; }

login_variables() {
    echo "CONDOR_CONFIG=$FOLDER/condor_config"
    echo "PATH=$FOLDER/bin:\$PATH"
}

daemons() {
    local root=$FOLDER/run/root memory=$FOLDER/run/memory
    mkdir -p "$root" "$memory"
    mount -t proc proc /proc
    # HTCondor makes a job's scratch folder in the tree, and one to bind it to on this machine.
    mount -t tmpfs tmpfs "$SPARE"
    mkdir -m 1777 "$EXECUTE"
    # The installation is shared by all pools: what one changes in it is kept in memory.
    mount -t tmpfs tmpfs "$memory"
    mkdir "$memory/changes" "$memory/work"
    mount -t overlay overlay \
        -o "lowerdir=$TREE,upperdir=$memory/changes,workdir=$memory/work" "$root"
    add_user "$root/etc"
    echo "condor:x:$CONDOR_UID:$CONDOR_UID::/:/usr/sbin/nologin" >>"$root/etc/passwd"
    echo "condor:x:$CONDOR_UID:" >>"$root/etc/group"
    mkdir -p "$root/machine" "$root$EXECUTE" "$FOLDER/state/execute"
    chmod 1777 "$FOLDER/state/execute"
    mount --rbind / "$root/machine"
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount --bind /etc/hosts "$root/etc/hosts"
    # What the user submits from lies below one of these.
    mount --bind /tmp "$root/tmp"
    mkdir -p "$root$FOLDER"
    mount --bind "$FOLDER" "$root$FOLDER"
    mount --bind "$FOLDER/state/execute" "$root$EXECUTE"
    chroot "$root" chown -R "$CONDOR_UID:$CONDOR_UID" "$FOLDER"/{log,run} "$FOLDER"/state/{spool,lock}
    CONDOR_CONFIG=$FOLDER/daemons_config chroot "$root" condor_master -f
}

# Ready when every slot is known to the pool.
is_ready() {
    local slots
    slots=$( (login timeout 5 condor_status -af Name) 2>/dev/null) &&
        [ "$(wc -l <<<"$slots")" = "$SLOTS" ]
}

describe() { echo "$SCRIPT run $FOLDER"; }

main "$@"
