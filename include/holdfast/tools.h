/*
 * The commands beside `holdfast serve`. Each takes the arguments behind its name, answers --help,
 * and returns the exit code of the process: 2 if it could not do what it was asked for.
 */
#ifndef HOLDFAST_TOOLS_H
#define HOLDFAST_TOOLS_H

/** 0: clean, 1: problems were found. */
int tool_verify(int argc, char **argv);
int tool_export(int argc, char **argv);
int tool_new_epoch(int argc, char **argv);
/** 1: the old side is damaged. */
int tool_migrate(int argc, char **argv);
int tool_repair(int argc, char **argv);
/** 1 with --dry-run: something is of an earlier format. */
int tool_upgrade(int argc, char **argv);
/** The two: 1 if the copy has problems that the original has, too. */
int tool_backup(int argc, char **argv);
int tool_restore(int argc, char **argv);
int tool_sessions(int argc, char **argv);
int tool_tail(int argc, char **argv);
int tool_watch(int argc, char **argv);
/** 0: the turn has ended by itself, 1: otherwise. */
int tool_prompt(int argc, char **argv);
int tool_append(int argc, char **argv);
int tool_attach(int argc, char **argv);
/** 1: there are warnings, 2: something is bad. */
int tool_doctor(int argc, char **argv);
int tool_replay(int argc, char **argv);
int tool_url(int argc, char **argv);
int tool_token(int argc, char **argv);
/** Ends as the agent that it records does. */
int tool_acp_record(int argc, char **argv);

#endif
