/*
 * What a program sends a terminal besides text, as ECMA-48 and xterm have it: control characters (C0,
 * DEL, and C1 in UTF-8) and the sequences that begin with ESC or a C1 character. A string (OSC, DCS,
 * SOS, PM, APC, and screen's title `ESC k`) ends at ST or BEL; CAN and SUB break a sequence off, and so
 * does an ESC, with which another one begins. A C1 character as a single byte is invalid UTF-8, and
 * belongs to none of them.
 */
#ifndef HOLDFAST_TERMINAL_SEQUENCE_H
#define HOLDFAST_TERMINAL_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Returns the length of the control character or sequence at the beginning of `text`; 0 if it begins
 * with text. *ret_is_cut: the text ends before the sequence does. An ESC, a character set or a single
 * shift never takes in a `{`, with which JSON begins.
 */
size_t terminal_sequence_length(const char *text, size_t len, bool *ret_is_cut);

#endif
