/*
 * The commands besides `holdfast serve`. Each takes the arguments after its name, answers --help,
 * and returns the exit code of the process: 0 for success, 2 for failure, or another one as noted.
 */
#ifndef HOLDFAST_TOOLS_H
#define HOLDFAST_TOOLS_H

/** Exit code 1: problems were found. */
int tool_verify(int argc, char **argv);
/** Exit code 1: damaged lines were left out. */
int tool_export(int argc, char **argv);
int tool_new_epoch(int argc, char **argv);
/** Exit code 1: the old side is damaged. */
int tool_migrate(int argc, char **argv);
/** Exit code 1: events are lost. */
int tool_repair(int argc, char **argv);
/** Exit code 1, with --dry-run: some files are of an earlier format. */
int tool_upgrade(int argc, char **argv);
/** Exit code 1: sessions are damaged, in the original too. */
int tool_backup(int argc, char **argv);
/** Exit code 1: sessions are damaged, in the backup too. */
int tool_restore(int argc, char **argv);
int tool_sessions(int argc, char **argv);
int tool_tail(int argc, char **argv);
int tool_watch(int argc, char **argv);
/** Exit code 1: the turn was cancelled or failed. */
int tool_prompt(int argc, char **argv);
int tool_append(int argc, char **argv);
int tool_attach(int argc, char **argv);
/** Exit code 1: there are warnings; 2: something is bad, or the check failed. */
int tool_doctor(int argc, char **argv);
int tool_replay(int argc, char **argv);
int tool_url(int argc, char **argv);
int tool_token(int argc, char **argv);
/** The exit code is that of the agent, or 128 and the number of the signal that ended it. */
int tool_acp_record(int argc, char **argv);

#endif
