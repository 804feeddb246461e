#!/bin/bash
# The Slurm of slurm.sh with accounting, as on nearly every real site: slurmdbd and its database.
# A second cluster keeps its accounts there, too.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=slurm.sh
. "$(dirname "${BASH_SOURCE[0]}")/slurm.sh"

usage() {
    cat >&2 <<END
usage: slurm_accounts.sh up|run|down FOLDER ...   as slurm.sh, with the same partitions

Also: partition "draining" takes no jobs, in "closed" none starts; QOS "few" at most two of a user.
A second cluster, "west", has the node far1 and numbers jobs from 1 on, as the first does:
SLURM_CONF=FOLDER/west/slurm.conf speaks with it.
A file FOLDER/run/slurmdbd.off kills slurmdbd, and so on, as in slurm.sh.
END
    exit 2
}

install() {
    install_packages slurmctld slurmctld slurmd slurm-client munge
    install_packages slurmdbd slurmdbd mariadb-server
}

eval "$(declare -f configure | sed '1s/configure/configure_slurm/')"
configure() {
    local port there
    configure_slurm
    port=$(($(sed -n 's/^SlurmctldPort=//p' "$FOLDER/etc/slurm.conf") + 5))
    echo "$port" >"$FOLDER/etc/database.port"
    cat >"$FOLDER/accounts.conf" <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 1))
AccountingStoragePass=$FOLDER/state/munge.socket
AccountingStorageEnforce=associations,limits,qos
END
    # Jobs that have ended are soon known to accounting alone.
    sed -i -e "/^AccountingStorageType/{r $FOLDER/accounts.conf
        d}" -e 's/^MinJobAge=.*/MinJobAge=20/' "$FOLDER/etc/slurm.conf"
    printf "PartitionName=%s Nodes=std1 State=%s\n" draining DRAIN closed DOWN >>"$FOLDER/etc/slurm.conf"
    (umask 077 && cat >"$FOLDER/etc/slurmdbd.conf") <<END
AuthType=auth/munge
AuthInfo=socket=$FOLDER/state/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + 1))
SlurmUser=root
LogFile=$FOLDER/log/slurmdbd.log
PidFile=$FOLDER/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$port
StorageUser=slurm
StoragePass=slurm
StorageLoc=accounts
END
    mkdir -p "$FOLDER/west"
    there="NodeName=far1 NodeHostname=$(hostname -s) NodeAddr=127.0.0.1"
    sed -e '/^NodeName/d' -e '/^PartitionName/d' -e '/^GresTypes/d' \
        -e 's/^ClusterName=.*/ClusterName=west/' -e "s/^SlurmctldPort=.*/SlurmctldPort=$((port + 2))/" \
        -e "s#$FOLDER/state/slurm#$FOLDER/state/west-slurm#" \
        -e "s#$FOLDER/\(log\|run\)/slurm#$FOLDER/\1/west-slurm#" \
        "$FOLDER/etc/slurm.conf" >"$FOLDER/west/slurm.conf"
    cat >>"$FOLDER/west/slurm.conf" <<END
$there Port=$((port + 3)) CPUs=8 RealMemory=16000
PartitionName=all Nodes=far1 Default=YES
END
}

sql() { mariadb --no-defaults -S "$FOLDER/state/db.sock" -e "$1" >/dev/null 2>&1; }

accounts() {
    local said="all on *.* to slurm"
    mariadb-install-db --no-defaults --user=root --datadir="$FOLDER/state/db" --skip-test-db >&2
    mariadbd --no-defaults --user=root --datadir="$FOLDER/state/db" --bind-address=127.0.0.1 \
        --port="$(cat "$FOLDER/etc/database.port")" --socket="$FOLDER/state/db.sock" \
        --pid-file="$FOLDER/run/db.pid" --innodb-buffer-pool-size=64M \
        --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 >"$FOLDER/log/db.log" 2>&1 &
    within 30 sql "grant $said@localhost identified by 'slurm'; grant $said@'127.0.0.1' identified by 'slurm'"
    keep slurmdbd slurmdbd -D &
    within 30 sacctmgr -nQ show cluster >/dev/null 2>&1
    sacctmgr -iQ add cluster test west
    sacctmgr -iQ add account physics Cluster=test,west
    sacctmgr -iQ add qos few set MaxSubmitJobsPU=2
    sacctmgr -iQ add user "$CLUSTER_USER" Account=physics Cluster=test,west QOS=normal,few
    SLURM_CONF=$FOLDER/west/slurm.conf keep west slurmctld -D &
    SLURM_CONF=$FOLDER/west/slurm.conf keep far1 slurmd -D -N far1 &
}

eval "$(declare -f is_ready | sed '1s/is_ready/slurm_is_ready/')"
is_ready() {
    slurm_is_ready &&
        SLURM_CONF=$FOLDER/west/slurm.conf timeout 5 sinfo -h -N -t idle -o '%N' 2>/dev/null | grep -q far1
}

begin "$@"
