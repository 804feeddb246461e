#!/bin/sh
# On a worker: node.sh PARCEL OUTCOME PYTHON [OPTIONS]
# Runs the job in a parcel with a Python, or with the archive of an environment that brings one.
# There is an outcome whatever happens: what is missing would keep the job in the queue.
parcel=$1 outcome=$2 python=$3
shift 3
: >"$outcome" || exit 75
set -- -P -m fasthep_smk.transfer.remote_job "$parcel" "$outcome" "$@"
case $python in
*.run) sh "$python" -- "$@" ;;
*) "$python" "$@" ;;
esac
status=$?
# Before there was a job; what a batch system says of it may not name the exit status.
case $status in
75 | 76) [ -s "$outcome" ] || echo "$status $(uname -n)" >"$outcome" ;;
esac
rm -f "$parcel"
exit "$status"
