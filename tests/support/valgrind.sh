#!/bin/sh
# valgrind.sh SERVER ARG...: runs the server under valgrind's memcheck (scripts/test valgrind). What it finds is on stderr, which
# tests look at when the server has ended, and in the exit status. What the server starts, agents too, runs without it.
exec valgrind --quiet --vgdb=no --fair-sched=yes --error-exitcode=99 --child-silent-after-fork=yes --num-callers=24 \
	--leak-check=full --show-leak-kinds=definite,possible --errors-for-leak-kinds=definite,possible \
	--suppressions="${0%/*}/../valgrind.supp" "$@"
