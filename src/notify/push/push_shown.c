#include "push_shown.h"

#include "push_queue.h"

#include "holdfast/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** The logins of a session. */
struct shown {
	size_t count; /* never 0 */
	char (*logins)[PUSH_LOGIN_ID];
};

void push_shown_init(struct push_shown *shown)
{
	shown->sessions = hash_create();
}

static void free_shown(void *value, void *arg)
{
	struct shown *of = value;
	free(of->logins);
	free(of);
}

void push_shown_finish(struct push_shown *shown)
{
	hash_each(shown->sessions, free_shown, NULL);
	hash_destroy(shown->sessions);
}

static struct shown *find(const struct push_shown *shown, const char *session)
{
	return hash_get(shown->sessions, session, strlen(session));
}

/** Returns the index of a login, or the number of logins. */
static size_t index_of(const struct shown *of, const char *login)
{
	size_t i = 0;
	while (i < of->count && strcmp(of->logins[i], login) != 0) {
		i++;
	}
	return i;
}

bool push_shown_has(const struct push_shown *shown, const char *session, const char *login)
{
	const struct shown *of = find(shown, session);
	return of && index_of(of, login) < of->count;
}

void push_shown_add(struct push_shown *shown, const char *session, const char *login)
{
	struct shown *of = find(shown, session);
	if (push_shown_has(shown, session, login)) {
		return;
	}
	if (!of) {
		of = xcalloc(1, sizeof(*of));
		hash_put(shown->sessions, session, strlen(session), of);
	}
	of->logins = xrealloc(of->logins, (of->count + 1) * sizeof(*of->logins));
	snprintf(of->logins[of->count++], PUSH_LOGIN_ID, "%s", login);
}

static void remove_at(struct push_shown *shown, const char *session, struct shown *of, size_t i)
{
	of->count--;
	memmove(of->logins[i], of->logins[i + 1], (of->count - i) * sizeof(*of->logins));
	if (!of->count) {
		free_shown(hash_remove(shown->sessions, session, strlen(session)), NULL);
	}
}

void push_shown_remove(struct push_shown *shown, const char *session, const char *login)
{
	struct shown *of = find(shown, session);
	size_t i = of ? index_of(of, login) : 0;
	if (of && i < of->count) {
		remove_at(shown, session, of, i);
	}
}

void push_shown_tidy(struct push_shown *shown, const char *session, struct access *access)
{
	const struct grant *grant;
	struct shown *of = find(shown, session);
	for (size_t i = of ? of->count : 0; i-- > 0;) {
		if (!access_subscription(access, of->logins[i], &grant)) {
			remove_at(shown, session, of, i);
		}
	}
}
