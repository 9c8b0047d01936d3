/* Shared by the files of the push room. */
#ifndef HOLDFAST_PUSH_INTERNAL_H
#define HOLDFAST_PUSH_INTERNAL_H

#include "holdfast/push.h"

#include "holdfast/post.h"
#include "push_message.h"

/** Whether the rules allow messages to this host and port. */
bool push_rules_allow(const struct push_rules *rules, const struct post_url *url);

#endif
