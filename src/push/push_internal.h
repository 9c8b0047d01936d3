/* What the files of the push room share. */
#ifndef HOLDFAST_PUSH_INTERNAL_H
#define HOLDFAST_PUSH_INTERNAL_H

#include "holdfast/push.h"

#include "holdfast/post.h"
#include "holdfast/push_message.h"

/** Whether the operator lets messages go to this host. */
bool push_rules_allow(const struct push_rules *rules, const struct post_url *url);

#endif
