/*
 * An intrusive doubly linked list with a head node, like wl_list and uv__queue: the link is a
 * member of the element, and nothing is allocated. A link that is in no list points to itself after
 * list_init().
 */
#ifndef HOLDFAST_LIST_H
#define HOLDFAST_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

static inline void list_init(struct list *l)
{
	l->prev = l;
	l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/** Appends `link`, which must be in no list. */
static inline void list_append(struct list *head, struct list *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

/** Removes `link` from its list, if any, and makes it point to itself. */
static inline void list_remove(struct list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	list_init(link);
}

/** Moves all elements of `from` to the end of `to`; `from` is empty afterwards. */
static inline void list_move_all(struct list *to, struct list *from)
{
	if (list_empty(from)) {
		return;
	}
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

static inline void *list_owner(void *link, size_t offset)
{
	return (char *)link - offset;
}

/** The element of type `type` whose member `member` is this link. */
#define list_entry(link, type, member) ((type *)list_owner(link, offsetof(type, member)))

/** Iterates over the list; the body may remove the current element, but not the next one. */
#define list_for_each_safe(link, tmp, head)                                       \
	for (struct list *link = (head)->next, *tmp = link->next; link != (head); \
		link = tmp, tmp = link->next)

#define list_for_each(link, head) \
	for (struct list *link = (head)->next; link != (head); link = link->next)

#endif
