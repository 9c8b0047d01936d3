#include "sinks.h"

#include "tool.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* They are read so often: often enough for what their sockets hold, and it costs little. */
#define ROUND_NS (50 * NS_PER_SECOND / 1000)

struct sinks {
	struct member *members;
	size_t count;
	pthread_t thread;
	pthread_mutex_t lock; /* what follows, and how much the members have received */
	bool ends;
};

static void drop_all(struct sinks *sinks)
{
	for (size_t i = 0; i < sinks->count; i++) {
		client_drop(&sinks->members[i].client);
	}
}

static void *handle_thread(void *arg)
{
	struct sinks *sinks = arg;
	const struct timespec round = {.tv_nsec = (long)ROUND_NS};
	pthread_mutex_lock(&sinks->lock);
	while (!sinks->ends) {
		drop_all(sinks);
		pthread_mutex_unlock(&sinks->lock);
		nanosleep(&round, NULL);
		pthread_mutex_lock(&sinks->lock);
	}
	pthread_mutex_unlock(&sinks->lock);
	return NULL;
}

struct sinks *sinks_create(struct member *members, size_t count)
{
	if (!count) {
		return NULL;
	}
	struct sinks *sinks = xcalloc(1, sizeof(*sinks));
	sinks->members = members;
	sinks->count = count;
	for (size_t i = 0; i < count; i++) {
		client_make_sink(&members[i].client);
	}
	pthread_mutex_init(&sinks->lock, NULL);
	if (pthread_create(&sinks->thread, NULL, handle_thread, sinks) != 0) {
		die("there is no thread to read %zu observers", count);
	}
	return sinks;
}

uint64_t sinks_bytes(struct sinks *sinks)
{
	uint64_t sum = 0;
	if (sinks) {
		pthread_mutex_lock(&sinks->lock);
		drop_all(sinks);
		for (size_t i = 0; i < sinks->count; i++) {
			sum += sinks->members[i].client.received;
		}
		pthread_mutex_unlock(&sinks->lock);
	}
	return sum;
}

void sinks_destroy(struct sinks *sinks, uint64_t wanted, uint64_t deadline)
{
	if (!sinks) {
		return;
	}
	pthread_mutex_lock(&sinks->lock);
	sinks->ends = true;
	pthread_mutex_unlock(&sinks->lock);
	pthread_join(sinks->thread, NULL);
	pthread_mutex_destroy(&sinks->lock);
	for (size_t i = 0; i < sinks->count; i++) {
		struct client *client = &sinks->members[i].client;
		while (client->received < wanted) {
			if (now_ns() >= deadline) {
				die("a sink got %llu bytes of about %llu",
					(unsigned long long)client->received,
					(unsigned long long)wanted);
			}
			client_drop(client);
		}
	}
	free(sinks);
}
