#!/bin/sh
# An epilog of Slurm: ends what a job has left on its node, and notes it. Slurm ends the processes of a job's steps by itself; these are ones
# that have left its session, found by the job's number in their environment.
job=$SLURM_JOB_ID
[ -n "$job" ] || exit 0
for process in /proc/[0-9]*; do
    number=${process#/proc/}
    environment=$(tr '\0' '\n' <"$process/environ" 2>/dev/null) || continue
    # Slurm's own scripts, this one among them, have the number, too.
    case $environment in *SLURM_SCRIPT_CONTEXT=*) continue ;; esac
    case "
$environment
" in
    *"
SLURM_JOB_ID=$job
"*)
        kill -KILL "$number" 2>/dev/null && echo "job $job left process $number" >>"${BELFRY_EPILOG_LOG:-/dev/null}"
        ;;
    esac
done
exit 0
