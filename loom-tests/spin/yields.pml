/* Giving way to tasks at split points, runtime/src/scheduler/computations/split.rs, for ever: computations and
 * tasks both go on, and a computation has at least half of its time.
 *
 * Steps have the names they have in split.rs and idle.rs. Actors: SEATS seats, each in a computation of STEPS
 * steps (0: without end), with a split point behind each; one spare worker; TASKS tasks in the injector, each
 * polled once, or, with -DENDLESS, queued again for ever. There is no monitor. A seat whose computation has
 * ended polls tasks, too, and computes no more.
 *
 * With -DLOCK seat 0 holds a lock across every second split point, and every poll needs it. With -DBLOCKED
 * another seat is in a blocking call for ever, for which the spare worker is there: it does not retire, it
 * sleeps as a worker.
 *
 * With -DIDLE another seat's worker sleeps beside the computations: a look asks it first, and gives way only
 * if the tasks are still there at the next look. With -DIDLE_STARVES that worker never gets a CPU, not even
 * when it is woken.
 *
 * Time is what a seat counts for itself: it sleeps at most LIMIT ticks, and does not give way again before it
 * has computed for as many ticks as it slept (`owes`). One step takes a tick. That it never owes more than
 * LIMIT is asserted.
 *
 * Faults, one at a time: -DNO_GIVING (a look never gives way), -DNO_LIMIT (a sleep lasts until the tasks are
 * drained), -DNO_SHARE (a seat gives way again at once), -DNO_D (the spare worker takes out no giver),
 * -DNO_D_LOCK (it looks at the givers and takes them out in two steps), -DNO_ASKED (a look asks the idle
 * worker each time), -DLATE_G1 (G1 after G2), -DNO_NOTIFY (a seat relies on a spare worker that sleeps),
 * -DNO_W4 (the spare worker sleeps beside a giver). The last five are found with -DNO_LIMIT and STEPS, where
 * it is no fault; otherwise the limit hides them. NO_NOTIFY needs -DBLOCKED, LATE_G1 must not have it.
 */

#ifndef SEATS
#define SEATS 2
#endif
#ifndef STEPS
#define STEPS 0
#endif
#ifndef TASKS
#define TASKS 2
#endif
#ifndef LIMIT
#define LIMIT 2
#endif

byte injector = TASKS;
byte polled = 0;                /* tasks that were polled, if there is an end */
bit poll_flips = 0;             /* changes with each poll */
bit flips[SEATS];               /* changes with each step of seat 0, 1, ... */
byte ended = 0;                 /* computations */
bool is_locked = false;         /* by seat 0's computation */
byte wanted = 0;                /* polls that wait for the lock; it is fair: seat 0 does not take it then */

/* Under the lock: single steps. */
bool gives[SEATS];
byte givers = 0;
bool is_resting = true;
byte awake = 0;
#ifdef BLOCKED
#define NEEDED (1 + givers)
#else
#define NEEDED givers
#endif

bool is_hungry = true;          /* the idle worker: asleep, or woken and not there yet */
bool idle_token = false;
bool has_asked = false;
bool is_asleep = false;         /* the spare worker, as a worker */
bool spare_token = false;
bool way[SEATS];

inline poll() {
#ifdef LOCK
    wanted++;
    atomic { !is_locked -> wanted-- };
#endif
    atomic {
        poll_flips = 1 - poll_flips;
#ifdef ENDLESS
        injector++
#else
        polled++
#endif
    }
}

inline enter() {
    atomic {
        if
        :: !gives[me] -> gives[me] = true; givers++
        :: else
        fi
    }
}

proctype seat(byte me) {
    byte owes = 0, steps = 0;
    bool relies = false, gives_way = false, found = false;
computing:
    do
    :: atomic { STEPS != 0 && steps == STEPS -> ended++; is_locked = (me == 0 -> false : is_locked); break }
    :: atomic { STEPS == 0 || steps < STEPS ->
       flips[me] = 1 - flips[me];
       if
       :: STEPS != 0 -> steps++
       :: else
       fi;
       if
       :: owes > 0 -> owes--
       :: else
       fi;
#ifdef LOCK
       if
       :: me == 0 -> is_locked = !is_locked && wanted == 0
       :: else
       fi;
#endif
       gives_way = false }
       /* The split point. */
#ifdef NO_GIVING
       if
       :: false
       :: else -> goto computing
       fi;
#endif
#ifdef IDLE
       if
       :: injector == 0 -> has_asked = false
       :: atomic { injector > 0 && is_hungry && !has_asked ->
#ifndef NO_ASKED
          has_asked = true;
#endif
          idle_token = true; goto computing }
       :: injector > 0 && (!is_hungry || has_asked)
       fi;
#endif
       if
       :: injector == 0 -> goto computing
#ifndef NO_SHARE
       :: injector > 0 && owes > 0 -> goto computing
       :: injector > 0 && owes == 0
#else
       :: injector > 0
#endif
       fi;
again:
       atomic {                       /* G1, G2 */
           has_asked = false;
#ifndef LATE_G1
           enter();
#endif
           if
           :: is_resting -> is_resting = false; awake++; spare_token = true; relies = false
           :: else -> relies = true
           fi
       }
#ifdef LATE_G1
       enter();
#endif
#ifndef NO_NOTIFY
       if
       :: relies ->
          atomic {                    /* P2 to P6 */
              if
              :: is_asleep -> is_asleep = false; spare_token = true
              :: else
              fi
          }
       :: else
       fi;
#endif
       do                             /* G3 */
       :: atomic { way[me] -> way[me] = false; break }
#ifndef NO_LIMIT
#ifdef NO_SHARE
       :: atomic { !way[me] -> owes++; assert(owes <= LIMIT); break }
#else
       :: atomic { !way[me] && owes < LIMIT -> owes++ }
       :: atomic { !way[me] && owes == LIMIT -> break }
#endif
#endif
       od;
       atomic {                       /* G4 */
           if
           :: gives[me] -> gives[me] = false; givers--
           :: else
           fi
       }
#ifdef NO_SHARE
       if
       :: injector > 0 -> goto again
       :: else
       fi
#endif
    od;
    /* A worker as any other. */
end_worker:
    do
    :: atomic { injector > 0 -> injector-- };
       poll()
    od
}

proctype idler() {
end_idle:
    do
    :: atomic { idle_token -> idle_token = false; is_hungry = false };
       do
       :: atomic { injector > 0 -> injector-- };
          poll()
       :: injector == 0 -> break
       od;
       is_hungry = true
    od
}

proctype relief() {
    byte i = 0;
    bool found = false, taken[SEATS];
resting:
end_resting:
    atomic { spare_token -> spare_token = false };
    /* Was it called, or is there a token from before? */
    if
    :: is_resting -> goto resting
    :: else
    fi;
looking:
    atomic {
        if
        :: injector > 0 -> injector--; found = true
        :: else -> found = false
        fi
    }
    if
    :: found -> found = false; poll(); goto looking
    :: else
    fi;
#ifndef NO_D
    atomic {                          /* D1 */
        i = 0;
        do
        :: i < SEATS -> taken[i] = gives[i]; i++
        :: else -> i = 0; break
        od;
#ifdef NO_D_LOCK
    }
    atomic {
#endif
        do
        :: i < SEATS -> gives[i] = false; i++
        :: else -> i = 0; break
        od;
        givers = 0
    }
    do                                /* D2 */
    :: atomic { i < SEATS ->
       if
       :: taken[i] -> way[i] = true; taken[i] = false
       :: else
       fi;
       i++ }
    :: i == SEATS -> i = 0; break
    od;
#endif
    atomic {                          /* D3 */
        if
        :: awake > NEEDED -> awake--; is_resting = true; found = true
        :: else -> found = false
        fi
    }
    if
    :: found ->
       found = false;
       if                             /* R2 */
       :: injector > 0 ->
          atomic {
              if
              :: is_resting -> is_resting = false; awake++; goto looking
              :: else
              fi
          }
       :: else
       fi;
       goto resting
    :: else
    fi;
    is_asleep = true;                 /* W1 to W3 */
    if                                /* W4 */
    :: injector > 0 -> atomic { is_asleep = false; goto looking }
#ifndef NO_W4
    :: injector == 0 && givers > 0 -> atomic { is_asleep = false; goto looking }
    :: injector == 0 && givers == 0
#else
    :: injector == 0
#endif
    fi;
end_asleep:
    atomic { spare_token -> spare_token = false; is_asleep = false };
    goto looking
}

init {
    byte n = 0;
    atomic {
#ifdef BLOCKED
        is_resting = false;
        awake = 1;
        is_asleep = true;
#endif
        run relief();
#ifdef IDLE
#ifndef IDLE_STARVES
        run idler();
#endif
#endif
        do
        :: n < SEATS -> run seat(n); n++
        :: else -> break
        od
    }
}


#if STEPS == 0
ltl all_computations_go_on { ([]<> (flips[0] == 0)) && ([]<> (flips[0] == 1)) && ([]<> (flips[SEATS - 1] == 0)) && ([]<> (flips[SEATS - 1] == 1)) }
#else
ltl all_computations_go_on { <> (ended == SEATS) }
#endif
#ifdef ENDLESS
ltl all_tasks_go_on { ([]<> (poll_flips == 0)) && ([]<> (poll_flips == 1)) }
#else
ltl all_tasks_go_on { <> (polled == TASKS) }
#endif
