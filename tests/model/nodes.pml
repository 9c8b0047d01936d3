/*
 * Who owns a session in PostgreSQL: the protocol of src/engines/postgres/pg_*.c, for spin, which
 * tries all orders of all steps. tests/style/22-nodes-model.test.mjs runs it.
 *
 * Two nodes, one session that node 0 has when all begins, a database and its synchronous standby. Any
 * step may come as late as spin likes, so a paused owner that wakes is no fault: it is always there.
 * Time goes in ticks; only what is left of leases and deadlines is kept, so it has no end. FAULTS
 * happen: a connection is lost, whose statement may go on; the wait for the standby is cancelled,
 * which is a warning. Besides, nodes crash and the standby is promoted, if they may.
 *
 * What models what:
 *   append            pg_append(), begin_flight() of pg_group.c; try_group() of pg_write.c
 *   make              the same of a session that is new
 *   settle            settle(), settle_part() of pg_write.c
 *   land_group        land_all() of pg_group.c
 *   renew             keep_lease(), enter(), renew() of pg_nodes.c
 *   land_lease        lease_kept(), note_lease() of pg_nodes.c
 *   let_go            handle_timer(), let_go() of pg_nodes.c
 *   begin_take        pg_take() of pg_take.c until the snapshot of take_sql; a round's, or pg_seek()'s
 *   run_take          take_sql with its lock, events_sql, records_sql, COMMIT
 *   land_take, adopt  pg_nodes_land() of pg_nodes.c, pg_adopt() of pg_take.c
 *   start_agent       its guard ends an agent at the deadline, also while the node is paused
 *   begin_stop, give_up, leave
 *                     SIGTERM: pg_nodes_take_no_more(); free_most() or hand_over() of
 *                     store_postgres.c, once the agent is gone and the writer has nothing to do;
 *                     pg_nodes_leave()
 *
 * A statement that changes the session's row holds its lock (`pend`) until the standby has it too, or
 * the wait is cancelled. `zombie` is one whose connection is gone and whose backend still works.
 *
 * What must hold:
 *   check()     what was told, which is acknowledged or shown, is in the database for good and with
 *               its number, and no input is there twice
 *   owned()     only the owner, by the row, changes a session: an old fence changes nothing
 *   adopt()     a new owner knows all that was told
 *   tell()      no number has two meanings
 *   start_agent one agent works at a time
 *   not_lost()  what a node owns by the row, it has, or is about to take again
 *
 * A name that #ifdef or #ifndef has below, given with -D, leaves a rule out; the test has a list of
 * those that it shows to be needed.
 * These the code does not keep, and no scene needs them:
 *   LATE_RENEWALS_COUNT            note_lease(), after the deadline
 *   LEASES_IGNORE_WARNINGS         renew(), enter()
 *   AN_OLDER_TAKE_REPLACES         make_log() of pg_take.c
 */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef CRASHES
#define CRASHES 1 /* 0: no node crashes */
#endif
#ifndef PROMOTIONS
#define PROMOTIONS 1 /* once; 0: never */
#endif
#ifndef INPUTS
#define INPUTS 2 /* records that anybody appends */
#endif
#ifndef LIVES
#define LIVES 2 /* names that a node has, one after the other: make_name() */
#endif
#ifndef TAKES
#define TAKES 3 /* of the session, which is with node 0 when all begins */
#endif
#ifndef LEASE
#define LEASE 3 /* ticks; the deadline of the node itself is one before */
#endif
#define NOBODY 15
#define NAME(i) ((i) * 4 + life[i])
#define NODE(h) ((h) / 4)
#define CAN_DIE(i) (life[i] < LIVES - 1 - i) /* node 1 has one name less */

/* --- the database --- */

typedef db {
	byte sid; /* 0: there is no such session */
	byte owner;
	byte fence;
	byte last;
	byte record[INPUTS + 1]; /* the input that it is; [0] is not used */
	byte holder[2]; /* of the rows of holdfast_node: the node's life, from 1 on */
	byte lease[2]; /* ticks that are left */
};
db now, standby, nothing;

mtype = { IDLE, SENT, WAITING, WON, FENCED, LOST, DOUBT, SETTLING, BUSY, APPEND, SETTLE, TAKE };

mtype pend = IDLE;
byte pend_place; /* a node, or a taker */
bool pend_orphan; /* nobody hears the answer */
bool pend_makes; /* the row is new: nobody sees it, nor its lock, but who makes one, too */
byte pend_sid, pend_owner, pend_fence, pend_last, pend_input;

mtype zombie = IDLE;
bool zombie_makes;
byte zombie_sid, zombie_name, zombie_fence, zombie_after, zombie_input;

byte faults;
bool promoted;

/* --- nodes --- */

byte life[2];
bool in[2]; /* it has a lease */
byte deadline[2]; /* ticks until it lets go */
bool agent[2];
bool unsure[2]; /* pg_nodes_add_unsure() */
#ifdef STOPS
bool stopping[2]; /* it has been told to stop */
#define STAYS(i) (!stopping[i])
#else
#define STAYS(i) true
#endif

bool has[2]; /* a log of the session: */
bool fresh[2]; /* that is not yet in the database */
byte sid[2], fence[2], last[2];

/* What the writer has. */
mtype group[2] = IDLE;
bool group_log[2]; /* its log is still there */
bool group_makes[2];
bool group_unsure[2];
byte group_sid[2], group_name[2], group_fence[2], group_after[2], group_input[2];

/* The statement for the lease. */
mtype renewal[2] = IDLE;
bool renewal_enters[2];
byte renewal_name[2], renewal_age[2];
bool late[2]; /* one that is on its way without its connection */
byte late_name[2], late_age[2];

/* Takers: node i has the takers i and, with SEEKS, i + 2. */
#ifdef SEEKS
#define TAKERS 4
#else
#define TAKERS 2
#endif
mtype take[TAKERS] = IDLE;
bool take_again[TAKERS];
byte take_name[TAKERS], take_fence[TAKERS], take_last[TAKERS];
byte take_owner[TAKERS], take_sees[TAKERS]; /* its snapshot: whose row it is; whose leases are good */

/* --- what must hold --- */

byte next_input = 1;
byte told[INPUTS + 1];
byte told_last;
byte x, y, n;

inline tell(number, what)
{
	assert(told[number] == 0 || told[number] == what);
	told[number] = what;
	told_last = (number > told_last -> number : told_last)
}

inline check()
{
	x = 1;
	do
	:: x <= INPUTS ->
		assert(told[x] == 0 || (x <= now.last && now.record[x] == told[x]));
		y = x + 1;
		do
		:: y <= INPUTS -> assert(now.record[x] == 0 || now.record[x] != now.record[y]); y++
		:: else -> break
		od;
		x++
	:: else -> break
	od;
	x = 0;
	y = 0
}

inline owned(name, makes)
{
#ifndef ONLY_THE_DATA
	assert(makes || now.owner == name)
#else
	skip
#endif
}

#define IS_ALIVE(h) ((h) != NOBODY && now.holder[NODE(h)] == (h) % 4 + 1 && now.lease[NODE(h)] > 0)

inline not_lost(i)
{
#ifndef ONLY_THE_DATA
	assert(!(in[i] && deadline[i] > 0 && now.sid != 0 && now.owner == NAME(i) && IS_ALIVE(NAME(i)))
		|| has[i] || unsure[i] || group[i] != IDLE || take[i] != IDLE
#ifdef SEEKS
		|| take[i + 2] != IDLE
#endif
		)
#else
	skip
#endif
}

/* --- the standby, and leases --- */

inline copy(to, from)
{
	to.sid = from.sid; to.owner = from.owner; to.fence = from.fence; to.last = from.last;
	to.holder[0] = from.holder[0]; to.holder[1] = from.holder[1];
	to.lease[0] = from.lease[0]; to.lease[1] = from.lease[1];
	x = 1;
	do
	:: x <= INPUTS -> to.record[x] = from.record[x]; x++
	:: else -> break
	od;
	x = 0
}

inline replicate()
{
	if
	:: !promoted && PROMOTIONS -> copy(standby, now)
	:: else -> skip /* nobody looks at it any more */
	fi
}

inline run_renewal(i)
{
	if
	:: renewal_enters[i] -> now.holder[i] = renewal_name[i] % 4 + 1; now.lease[i] = LEASE
	:: !renewal_enters[i] && now.holder[i] == renewal_name[i] % 4 + 1 -> now.lease[i] = LEASE
	:: else -> renewal[i] = BUSY
	fi
}

/* --- what a node does --- */

#ifdef ONLY_THE_DATA
#define ALONE(other) skip
#else
#define ALONE(other) assert(!agent[other])
#endif
inline start_agent(i)
{
	if
	:: deadline[i] > 0 -> ALONE(1 - i); agent[i] = true
	:: else -> skip /* its guard ends it at once */
	fi
}

inline drop_log(i)
{
	has[i] = false; fresh[i] = false; sid[i] = 0; fence[i] = 0; last[i] = 0;
	agent[i] = false; group_log[i] = false
}

inline make(i)
{
	has[i] = true; fresh[i] = true; sid[i] = NAME(i) + 2; fence[i] = 1; last[i] = 0
}

inline append(i)
{
	group[i] = SENT; group_log[i] = true; group_makes[i] = fresh[i]; group_sid[i] = sid[i];
	group_name[i] = NAME(i); group_fence[i] = fence[i]; group_after[i] = last[i];
	group_input[i] = next_input;
	fresh[i] = false;
	next_input++
}

inline settle(i)
{
#ifdef SETTLED_WITHOUT_A_RAISE
	group[i] = (now.sid == group_sid[i] && now.last > group_after[i] -> WON : SENT)
#else
	group[i] = SETTLING
#endif
}

inline end_group(i)
{
	group[i] = IDLE; group_log[i] = false; group_makes[i] = false; group_unsure[i] = false;
	group_sid[i] = 0; group_name[i] = 0; group_fence[i] = 0; group_after[i] = 0; group_input[i] = 0
}

inline land_group(i)
{
	if
	:: group[i] == WON && group_log[i] ->
		last[i] = group_after[i] + 1;
		fence[i] = group_fence[i];
		tell(last[i], group_input[i]);
		if
		:: !agent[i] && group_after[i] == 0 -> start_agent(i) /* of a session that is new */
		:: else -> skip
		fi
	:: group[i] == FENCED && group_log[i] ->
#ifndef FENCED_BY_ITSELF_IS_FORGOTTEN
		unsure[i] = unsure[i] || group_unsure[i];
#endif
		drop_log(i)
	:: else -> skip
	fi;
	end_group(i)
}

inline let_go(i)
{
	in[i] = false; deadline[i] = 0; unsure[i] = false;
	life[i]++;
	drop_log(i)
}

#ifdef STOPS
#ifdef STOPS_BEFORE_ITS_AGENT
#define HAS_NO_AGENT(i) true
#else
#define HAS_NO_AGENT(i) (!agent[i])
#endif
#ifdef STOPS_BEFORE_ITS_WRITER
#define HAS_WRITTEN(i) true
#else
#define HAS_WRITTEN(i) (group[i] == IDLE)
#endif
#define MAY_GIVE_UP(i) (stopping[i] && has[i] && HAS_NO_AGENT(i) && HAS_WRITTEN(i))

/** Anybody may have the session; no fence is raised. */
inline give_up(i)
{
	if
	:: now.sid == sid[i] && now.owner == NAME(i) -> now.owner = NOBODY
	:: else -> skip
	fi;
	has[i] = false; fresh[i] = false; sid[i] = 0; fence[i] = 0; last[i] = 0;
	group_log[i] = false
}

/** The process ends, and starts anew. */
inline leave(i)
{
	if
	:: now.holder[i] == life[i] + 1 -> now.holder[i] = 0; now.lease[i] = 0
	:: else -> skip
	fi;
	stopping[i] = false;
	end_renewal(i);
	let_go(i)
}
#endif

inline renew(i)
{
	renewal[i] = SENT; renewal_enters[i] = !in[i]; renewal_name[i] = NAME(i); renewal_age[i] = 0
}

inline note_lease(i)
{
	in[i] = true;
	deadline[i] = (renewal_age[i] < LEASE - 1 -> LEASE - 1 - renewal_age[i] : 0)
}

inline end_renewal(i)
{
	renewal[i] = IDLE; renewal_enters[i] = false; renewal_name[i] = 0; renewal_age[i] = 0
}

inline land_lease(i)
{
	if
	:: renewal_name[i] != NAME(i) -> skip
	:: renewal_name[i] == NAME(i) && renewal[i] == WON ->
		if
#ifndef LATE_RENEWALS_COUNT
		:: !renewal_enters[i] && deadline[i] == 0 -> skip /* it lets go, whatever comes */
#endif
		:: else -> note_lease(i)
		fi
	:: renewal_name[i] == NAME(i) && renewal[i] == BUSY && CAN_DIE(i) -> let_go(i)
	:: else -> skip
	fi;
	end_renewal(i)
}

/* One that finds nothing changes nothing. */
#ifdef MADE_WITHOUT_A_LEASE
#define MAY_MAKE_ONE(i) true
#else
#define MAY_MAKE_ONE(i) (in[i] && STAYS(i))
#endif
#ifdef TAKEN_WITHOUT_A_LEASE
#define MAY_TAKE(i) true
#else
#define MAY_TAKE(i) (in[i] && STAYS(i))
#endif
#define FINDS(i) (MAY_TAKE(i) && now.sid != 0 && now.fence <= TAKES && (now.owner == NAME(i) -> unsure[i] : !IS_ALIVE(now.owner)))

inline begin_take(i, t)
{
	take[t] = SENT; take_name[t] = NAME(i); take_again[t] = unsure[i];
	take_owner[t] = now.owner;
	take_sees[t] = (now.lease[0] > 0 -> now.holder[0] : 0) + 4 * (now.lease[1] > 0 -> now.holder[1] : 0)
}

inline end_take(t)
{
	take[t] = IDLE; take_again[t] = false; take_name[t] = 0; take_fence[t] = 0; take_last[t] = 0;
	take_owner[t] = 0; take_sees[t] = 0
}

inline adopt(i, t)
{
	if
#ifndef AN_OLDER_TAKE_REPLACES
	:: has[i] && sid[i] == now.sid && fence[i] >= take_fence[t] -> skip
#endif
	:: else ->
		assert(take_last[t] >= told_last);
		drop_log(i);
		has[i] = true; sid[i] = now.sid; fence[i] = take_fence[t]; last[i] = take_last[t];
		start_agent(i);
		n = 1;
		do
		:: n <= last[i] -> tell(n, now.record[n]); n++
		:: else -> break
		od;
		n = 0
	fi
}

inline land_take(i, t)
{
	if
	:: take_name[t] != NAME(i) -> skip
	:: take_name[t] == NAME(i) && take[t] == DOUBT ->
#ifndef UNSURE_TAKES_ARE_FORGOTTEN
		unsure[i] = true
#else
		skip
#endif
	:: take_name[t] == NAME(i) && take[t] == WON ->
		if
#ifndef ADOPTED_TOO_LATE
		:: deadline[i] == 0 || !STAYS(i) -> unsure[i] = true
#endif
		:: else -> unsure[i] = false; adopt(i, t)
		fi
	:: else -> skip
	fi;
	end_take(t)
}

/** Its backend may still be at work. */
inline become_zombie(i)
{
	if
#ifdef WITHOUT_ZOMBIES
	:: true -> skip
#endif
	:: zombie == IDLE && (group[i] == SENT || group[i] == SETTLING) ->
		zombie = (group[i] == SENT -> APPEND : SETTLE);
		zombie_makes = group_makes[i]; zombie_sid = group_sid[i]; zombie_name = group_name[i];
		zombie_fence = group_fence[i]; zombie_after = group_after[i]; zombie_input = group_input[i]
	:: else -> skip
	fi
}

inline crash(i)
{
	become_zombie(i);
	pend_orphan = pend_orphan || ((pend == APPEND || pend == SETTLE) && pend_place == i) ||
		(pend == TAKE && pend_place % 2 == i);
	end_group(i);
	end_renewal(i);
	end_take(i);
#ifdef SEEKS
	end_take(i + 2);
#endif
	let_go(i)
}

#define CAN_FAIL (faults < FAULTS)
#define OF_NODE_S_TAKER(place) \
	:: d_step { take[place] == IDLE && FINDS(me) -> begin_take(me, place) } \
	:: d_step { take[place] == WON || take[place] == DOUBT -> land_take(me, place) }

proctype node(byte me)
{
	do
#ifdef MAKES
	:: d_step { MAY_MAKE_ONE(me) && !has[me] && now.sid == 0 && group[me] == IDLE && next_input <= INPUTS -> make(me) }
#endif
	:: d_step { has[me] && group[me] == IDLE && next_input <= INPUTS -> append(me) }
	:: d_step { group[me] == DOUBT -> settle(me) }
	:: d_step { group[me] == WON || group[me] == FENCED -> land_group(me) }
#ifdef SLOW_RENEWALS
	:: d_step { renewal[me] == IDLE && deadline[me] < LEASE - 1 -> renew(me) }
#else
	:: d_step { deadline[me] < LEASE - 1 -> renew(me); renewal[me] = WON; run_renewal(me); replicate(); land_lease(me) }
#endif
	:: d_step { renewal[me] == WON || renewal[me] == BUSY || renewal[me] == LOST -> land_lease(me) }
	:: d_step { in[me] && deadline[me] == 0 && CAN_DIE(me) -> let_go(me) }
	OF_NODE_S_TAKER(me)
#ifdef SEEKS
	OF_NODE_S_TAKER(me + 2)
#endif
	:: d_step { CAN_DIE(me) && CRASHES -> crash(me) }
#ifdef STOPS
	:: d_step { in[me] && !stopping[me] && CAN_DIE(me) -> stopping[me] = true }
	:: d_step { stopping[me] && agent[me] -> agent[me] = false }
	:: d_step { MAY_GIVE_UP(me) && pend == IDLE -> give_up(me); replicate() }
	:: d_step { MAY_GIVE_UP(me) && pend == IDLE && CAN_FAIL -> give_up(me); faults++ } /* the standby has not got it */
	:: d_step { stopping[me] && !has[me] && group[me] == IDLE && take[me] == IDLE -> leave(me); replicate() }
#endif
	od
}

/* --- what the database does --- */

inline begin_pend(what, place, orphan)
{
	pend = what; pend_place = place; pend_orphan = orphan; pend_makes = false;
	pend_sid = now.sid; pend_owner = now.owner; pend_fence = now.fence; pend_last = now.last;
	pend_input = 0
}

inline end_pend()
{
	pend = IDLE; pend_place = 0; pend_orphan = false; pend_makes = false;
	pend_sid = 0; pend_owner = 0; pend_fence = 0; pend_last = 0; pend_input = 0
}

#ifdef WITHOUT_FENCE
#define HAS_FENCE(f) true
#else
#define HAS_FENCE(f) (now.fence == (f))
#endif
#ifdef WITHOUT_LAST_RECORD
#define HAS_LAST(after) (now.last < INPUTS)
#else
#define HAS_LAST(after) (now.last == (after))
#endif
#define MAY_MAKE(makes) (makes && now.sid == 0)
#define MAY_APPEND(makes, s, f, after) (MAY_MAKE(makes) || (now.sid == s && HAS_FENCE(f) && HAS_LAST(after)))

inline run_append(makes, s, name, f, input, place, orphan)
{
	owned(name, MAY_MAKE(makes));
	begin_pend(APPEND, place, orphan);
	if
	:: MAY_MAKE(makes) -> pend_makes = true; pend_sid = s; pend_owner = name; pend_fence = f
	:: else -> skip
	fi;
	pend_last = now.last + 1;
	pend_input = input
}

inline run_group(i)
{
	if
	:: MAY_APPEND(group_makes[i], group_sid[i], group_fence[i], group_after[i]) ->
		run_append(group_makes[i], group_sid[i], group_name[i], group_fence[i], group_input[i], i, false);
		group[i] = WAITING
	:: else -> group[i] = FENCED
	fi
}

/** It does not wait for a row that is being made, which it does not see. */
inline run_settle(i)
{
	if
	:: now.sid == group_sid[i] && now.fence == group_fence[i] ->
		begin_pend(SETTLE, i, false);
		pend_fence++;
		group_makes[i] = false;
		group[i] = WAITING
	:: else ->
		group_unsure[i] = true;
		group[i] = (group_makes[i] -> SENT : FENCED)
	fi
}

inline run_zombie()
{
	if
	:: zombie == APPEND && MAY_APPEND(zombie_makes, zombie_sid, zombie_fence, zombie_after) ->
		run_append(zombie_makes, zombie_sid, zombie_name, zombie_fence, zombie_input, 0, true)
	:: zombie == SETTLE && now.sid == zombie_sid && now.fence == zombie_fence ->
		begin_pend(SETTLE, 0, true);
		pend_fence++
	:: else -> skip
	fi;
	end_zombie()
}

inline end_zombie()
{
	zombie = IDLE; zombie_makes = false;
	zombie_sid = 0; zombie_name = 0; zombie_fence = 0; zombie_after = 0; zombie_input = 0
}

/*
 * take_sql waits for the lock, and then looks at the row again, but at the leases with the snapshot
 * that it has had from its beginning: it does not see one that has come since.
 */
#define SEES(t, h) ((NODE(h) == 0 -> take_sees[t] % 4 : take_sees[t] / 4) == (h) % 4 + 1)
#ifdef NEW_OWNERS_HAVE_NO_LEASE
#define IS_FREE(t) (now.owner == NOBODY || !SEES(t, now.owner))
#else
#define IS_FREE(t) (now.owner == take_owner[t] && (now.owner == NOBODY || !SEES(t, now.owner)))
#endif

inline run_take(t)
{
	if
	:: now.sid != 0 && (now.owner == take_name[t] -> take_again[t] : IS_FREE(t)) ->
		begin_pend(TAKE, t, false);
		pend_owner = take_name[t];
#ifndef TAKEN_WITHOUT_A_RAISE
		pend_fence++;
#endif
		take_fence[t] = pend_fence;
		take_last[t] = now.last;
		take[t] = WAITING
	:: else -> end_take(t)
	fi
}

/** Everybody sees it, and the lock is free. */
inline apply()
{
	now.sid = pend_sid; now.owner = pend_owner; now.fence = pend_fence; now.last = pend_last;
	if
	:: pend_input != 0 -> now.record[pend_last] = pend_input
	:: else -> skip
	fi;
	check()
}

inline answer()
{
	if
	:: !pend_orphan && pend == APPEND -> group[pend_place] = WON
	:: !pend_orphan && pend == SETTLE ->
		group_fence[pend_place]++;
		group[pend_place] = (now.last > group_after[pend_place] -> WON : SENT)
	:: !pend_orphan && pend == TAKE -> take[pend_place] = WON
	:: else -> skip
	fi
}

/** It is done here, but may not be at the standby. */
inline warn()
{
#ifdef WARNINGS_ARE_IGNORED
	answer()
#else
	if
	:: !pend_orphan && pend == SETTLE ->
		group_fence[pend_place]++;
#ifdef SETTLED_BY_A_WARNING
		group[pend_place] = (now.last > group_after[pend_place] -> WON : DOUBT)
#else
		group[pend_place] = DOUBT
#endif
	:: pend_orphan || pend != SETTLE -> lose_answer()
	fi
#endif
}

inline lose_answer()
{
	if
	:: !pend_orphan && (pend == APPEND || pend == SETTLE) -> group[pend_place] = DOUBT
	:: !pend_orphan && pend == TAKE -> take[pend_place] = DOUBT
	:: else -> skip
	fi;
	pend_orphan = true
}

inline lose_group(i)
{
	become_zombie(i);
	group[i] = DOUBT;
	faults++
}

/** Its now() is the time at which it began. */
inline run_late(i)
{
	n = (late_age[i] < LEASE -> LEASE - late_age[i] : 0);
	if
	:: now.holder[i] == late_name[i] % 4 + 1 ->
#ifdef LATE_RENEWALS_GO_BACK
		now.lease[i] = n
#else
		now.lease[i] = (n > now.lease[i] -> n : now.lease[i])
#endif
	:: else -> skip
	fi;
	n = 0;
	end_late(i)
}

inline end_late(i)
{
	late[i] = false; late_name[i] = 0; late_age[i] = 0
}

inline lose_renewal(i)
{
	if
	:: !renewal_enters[i] && !late[i] -> /* to enter takes several round trips: it is done, or never will be */
		late[i] = true; late_name[i] = renewal_name[i]; late_age[i] = renewal_age[i]
	:: else -> skip
	fi;
	renewal[i] = LOST;
	faults++
}

/** What only the old one had is gone, and so are all connections. */
inline promote()
{
	copy(now, standby);
	lose_answer();
	end_pend();
	end_zombie();
	end_late(0);
	end_late(1);
	n = 0;
	do
	:: n < 2 ->
		group[n] = (group[n] == SENT || group[n] == SETTLING -> DOUBT : group[n]);
		renewal[n] = (renewal[n] == SENT -> LOST : renewal[n]);
		n++
	:: else -> break
	od;
	n = 0;
	do
	:: n < TAKERS ->
		if
		:: take[n] == SENT -> end_take(n)
		:: else -> skip
		fi;
		n++
	:: else -> break
	od;
	n = 0;
	check();
	promoted = true;
	copy(standby, nothing)
}

#define OF_NODE(i) \
	:: d_step { pend == IDLE && group[i] == SENT -> run_group(i) } \
	:: d_step { (pend == IDLE || pend_makes) && group[i] == SETTLING -> run_settle(i) } \
	:: d_step { CAN_FAIL && (group[i] == SENT || group[i] == SETTLING) -> lose_group(i) } \
	:: d_step { renewal[i] == SENT -> renewal[i] = WON; run_renewal(i); replicate() } \
	:: d_step { CAN_FAIL && renewal[i] == SENT -> renewal[i] = AFTER_A_WARNING; run_renewal(i); faults++ } \
	:: d_step { CAN_FAIL && renewal[i] == SENT -> lose_renewal(i) } \
	:: d_step { late[i] -> run_late(i) } \
	:: d_step { late[i] -> end_late(i) } /* it never got there */
#ifdef LEASES_IGNORE_WARNINGS
#define AFTER_A_WARNING WON
#else
#define AFTER_A_WARNING LOST
#endif
#define OF_TAKER(t) \
	:: d_step { (pend == IDLE || pend_makes) && take[t] == SENT -> run_take(t) }

proctype database()
{
	do
	OF_NODE(0)
	OF_NODE(1)
	OF_TAKER(0)
	OF_TAKER(1)
#ifdef SEEKS
	OF_TAKER(2)
	OF_TAKER(3)
#endif
	:: d_step { pend == IDLE && zombie != IDLE -> run_zombie() }
	:: d_step { zombie != IDLE -> end_zombie() }
	:: d_step { pend != IDLE -> apply(); replicate(); answer(); end_pend() }
	:: d_step { pend != IDLE && CAN_FAIL -> apply(); warn(); end_pend(); faults++ }
#ifndef WITHOUT_LATE_COMMITS
	:: d_step { pend != IDLE && !pend_orphan && CAN_FAIL -> lose_answer(); faults++ }
#endif
	:: d_step { pend_orphan -> end_pend() } /* its COMMIT never came */
	:: d_step { !promoted && PROMOTIONS -> promote() }
	od
}

/* --- time --- */

inline tick_node(i)
{
	not_lost(i);
	now.lease[i] = (now.lease[i] > 0 -> now.lease[i] - 1 : 0);
	standby.lease[i] = (standby.lease[i] > 0 -> standby.lease[i] - 1 : 0);
	deadline[i] = (deadline[i] > 0 -> deadline[i] - 1 : 0);
#ifndef AGENTS_WITHOUT_A_GUARD
	agent[i] = agent[i] && deadline[i] > 0;
#endif
	renewal_age[i] = (renewal[i] != IDLE && renewal_age[i] < LEASE -> renewal_age[i] + 1 : renewal_age[i]);
	late_age[i] = (late[i] && late_age[i] < LEASE -> late_age[i] + 1 : late_age[i])
}

proctype clock()
{
	do
	:: d_step { tick_node(0); tick_node(1) }
	od
}

init
{
	d_step {
#ifndef MAKES
		now.sid = 1; now.owner = 0; now.fence = 1;
		has[0] = true; sid[0] = 1; fence[0] = 1; agent[0] = true;
#endif
		now.holder[0] = 1; now.lease[0] = LEASE; in[0] = true; deadline[0] = LEASE - 1; /* node 1 enters later */
		replicate()
	}
	atomic { run node(0); run node(1); run database(); run clock() }
}
