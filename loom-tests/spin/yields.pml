/* Yielding to tasks at split points, runtime/src/scheduler/jobs/split.rs, for ever: computations and tasks
 * both go on, and a computation has at least half of its time.
 *
 * Steps have the names they have in split.rs and idle.rs. Actors: COMPUTING workers, each in a computation
 * of STEPS steps (0: without end), with a split point behind each; one spare worker; TASKS tasks in the
 * injector, each polled once, or, with -DENDLESS, queued again for ever. There is no monitor. A worker whose
 * computation has ended polls tasks, too, and computes no more.
 *
 * With -DLOCK the computation of worker 0 holds a lock across every second split point, and every poll needs
 * it. With -DBLOCKED one more worker is in a blocking call for ever, and the spare worker is there for it:
 * it does not rest, it sleeps as a worker.
 *
 * With -DIDLE one more worker sleeps beside the computations: a look asks it first, and yields only if the
 * tasks are still there at the next look. With -DIDLE_STARVES that worker never gets a CPU, not even when it
 * is woken.
 *
 * Each worker counts its own time: it sleeps at most LIMIT ticks, and does not yield again before it has
 * computed for as many ticks as it slept (`owes`). One step takes a tick. An assertion checks that it never
 * owes more than LIMIT.
 *
 * Faults, one at a time: -DNO_YIELD (a look never yields), -DNO_LIMIT (a sleep lasts until no task is left),
 * -DNO_SHARE (a worker yields again at once), -DNO_DONE (the spare worker takes out no worker that yields),
 * -DNO_DONE_LOCK (it looks at the workers that yield and takes them out in two steps), -DNO_ASKED (a look
 * asks the idle worker each time), -DLATE_YIELD (Yield after CallSpare), -DNO_NOTIFY (a worker relies on a
 * spare worker that sleeps), -DNO_SLEEP_LOOK (the spare worker sleeps beside a worker that yields). The last
 * five are found with -DNO_LIMIT and STEPS, where it is no fault; otherwise the limit hides them. NO_NOTIFY
 * needs -DBLOCKED, LATE_YIELD must not have it.
 */

#ifndef COMPUTING
#define COMPUTING 2
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
bit flips[COMPUTING];           /* changes with each step of worker 0, 1, ... */
byte ended = 0;                 /* computations */
bool is_locked = false;         /* by worker 0's computation */
byte wanted = 0;                /* polls that wait for the lock; it is fair: worker 0 does not take it then */

/* Under the lock: single steps. */
bool yields[COMPUTING];
byte yielding = 0;
bool is_resting = true;
byte awake = 0;
#ifdef BLOCKED
#define NEEDED (1 + yielding)
#else
#define NEEDED yielding
#endif

bool is_hungry = true;          /* the idle worker: asleep, or woken and not there yet */
bool idle_token = false;
bool has_asked = false;
bool is_asleep = false;         /* the spare worker, as a worker */
bool spare_token = false;
bool yield_token[COMPUTING];

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
        :: !yields[me] -> yields[me] = true; yielding++
        :: else
        fi
    }
}

proctype computing_worker(byte me) {
    byte owes = 0, steps = 0;
    bool relies = false;
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
    }
       /* The split point. */
#ifdef NO_YIELD
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
       atomic {                       /* Yield, CallSpare */
           has_asked = false;
#ifndef LATE_YIELD
           enter();
#endif
           if
           :: is_resting -> is_resting = false; awake++; spare_token = true; relies = false
           :: else -> relies = true
           fi
       }
#ifdef LATE_YIELD
       enter();
#endif
#ifndef NO_NOTIFY
       if
       :: relies ->
          atomic {                    /* PushFence to UnparkSleeper */
              if
              :: is_asleep -> is_asleep = false; spare_token = true
              :: else
              fi
          }
       :: else
       fi;
#endif
       do                             /* YieldSleep */
       :: atomic { yield_token[me] -> yield_token[me] = false; break }
#ifndef NO_LIMIT
#ifdef NO_SHARE
       :: atomic { !yield_token[me] -> owes++; assert(owes <= LIMIT); break }
#else
       :: atomic { !yield_token[me] && owes < LIMIT -> owes++ }
       :: atomic { !yield_token[me] && owes == LIMIT -> break }
#endif
#endif
       od;
       atomic {                       /* YieldOver */
           if
           :: yields[me] -> yields[me] = false; yielding--
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

proctype spare() {
    byte i = 0;
    bool found = false, taken[COMPUTING];
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
#ifndef NO_DONE
    atomic {                          /* TasksDone */
        i = 0;
        do
        :: i < COMPUTING -> taken[i] = yields[i]; i++
        :: else -> i = 0; break
        od;
#ifdef NO_DONE_LOCK
    }
    atomic {
#endif
        do
        :: i < COMPUTING -> yields[i] = false; i++
        :: else -> i = 0; break
        od;
        yielding = 0
    }
    do                                /* WakeYielding */
    :: atomic { i < COMPUTING ->
       if
       :: taken[i] -> yield_token[i] = true; taken[i] = false
       :: else
       fi;
       i++ }
    :: i == COMPUTING -> i = 0; break
    od;
#endif
    atomic {                          /* begins to rest */
        if
        :: awake > NEEDED -> awake--; is_resting = true; found = true
        :: else -> found = false
        fi
    }
    if
    :: found ->
       found = false;
       if                             /* RestLook */
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
    is_asleep = true;                 /* CountSleeper to SleepFence */
    if                                /* SleepLook */
    :: injector > 0 -> atomic { is_asleep = false; goto looking }
#ifndef NO_SLEEP_LOOK
    :: injector == 0 && yielding > 0 -> atomic { is_asleep = false; goto looking }
    :: injector == 0 && yielding == 0
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
        run spare();
#ifdef IDLE
#ifndef IDLE_STARVES
        run idler();
#endif
#endif
        do
        :: n < COMPUTING -> run computing_worker(n); n++
        :: else -> break
        od
    }
}


#if STEPS == 0
#define FIRST_GOES_ON (([]<> (flips[0] == 0)) && ([]<> (flips[0] == 1)))
#define LAST_GOES_ON (([]<> (flips[COMPUTING - 1] == 0)) && ([]<> (flips[COMPUTING - 1] == 1)))
ltl all_computations_go_on { FIRST_GOES_ON && LAST_GOES_ON }
#else
ltl all_computations_go_on { <> (ended == COMPUTING) }
#endif
#ifdef ENDLESS
ltl all_tasks_go_on { ([]<> (poll_flips == 0)) && ([]<> (poll_flips == 1)) }
#else
ltl all_tasks_go_on { <> (polled == TASKS) }
#endif
