#!/bin/sh
# valgrind.sh SERVER ARG...: runs the server under valgrind's memcheck (scripts/test valgrind). What it finds is on stderr, which
# tests look at when the server has ended, and in the exit status. What the server starts, agents too, runs without it.
# A server that does not wait for work which does not come back frees nothing: what is then still pointed to, if only to its
# middle, is no error.
exec valgrind --quiet --vgdb=no --fair-sched=yes --error-exitcode=99 --child-silent-after-fork=yes --num-callers=24 \
	--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
	--suppressions="${0%/*}/../valgrind.supp" "$@"
