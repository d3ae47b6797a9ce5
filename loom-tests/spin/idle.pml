/* The sleep protocol of runtime/src/scheduler/sleep/idle.rs, for ever: every task and every root that is
 * pushed is eventually run, and a worker that waits for a latch goes on when it is set.
 *
 * Loom explores orderings and finite runs; this explores infinite ones under weak fairness, with sequential
 * consistency. Steps have the names they have in idle.rs. Actors: PUSHERS threads outside, each of which
 * pushes ROUNDS tasks; WORKERS workers, which take tasks from the injector or, as searchers, from the other
 * workers' rings. A worker that finds the driver free sleeps in it, the others sleep on their tokens; an
 * event may end that sleep without a task. A worker may get stuck in a task until all other tasks have been
 * run. (Its ring is empty then: what is in a ring may be seen late.) A thread that relies on a searcher must
 * not be betrayed if the searcher finds something else.
 *
 * With -DROOTS=n, one of the threads outside also pushes n roots into the job injector, and one more worker
 * waits for a latch. It runs roots meanwhile and no tasks. All the other workers may then be stuck until the
 * waiting worker has run all roots; the latch is set at any other time. The events counter is counted modulo
 * 2, so that it makes a full turn whenever a worker gets sleepy after a post.
 *
 * Faults, one at a time: -DNO_W4 (a sleeper does not look again), -DNO_F2 (the last searcher that finds work
 * looks for no more), -DNO_LOOP (a notifier that finds no bit does not look again); with roots also -DNO_L4
 * (a waiter does not look again), -DNO_UNPARK (the setter of a latch looks at it in a step of its own).
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef PUSHERS
#define PUSHERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef ROOTS
#define ROOTS 0
#endif
#define WORK (PUSHERS * ROUNDS + ROOTS)
#define NOBODY 255
#define UNSET 0
#define SLEEPING 1
#define SET 2

byte injector = 0;              /* tasks in the injector */
byte ring[WORKERS];             /* tasks in each worker's ring */
byte searching = 0, sleeping = 0; /* the word: changed in single steps */
bool asleep[WORKERS];           /* the worker sleeps and has not been notified */
bool token[WORKERS];            /* unparked */
byte poller = NOBODY;           /* the worker that sleeps in the driver */
byte ended = 0;                   /* tasks and roots that were run */
#ifndef EVENTS
#define EVENTS 1
#endif
byte events = EVENTS;           /* that may still come */
byte stuck = 0;                 /* workers inside a task that lasts until the others are done */

byte roots = 0;                 /* in the job injector */
byte roots_ended = 0;
bit jec = 0;                    /* the jobs event counter */
byte latch = UNSET;
bool waits = false;             /* the waiter's bit */
bool waiter_token = false;
bool has_returned = false;      /* the waiter, whose latch is set */

/* A searcher may be picked only if fewer than half search already. */
#define MAY_SEARCH (2 * searching < WORKERS)

/* J5. */
inline pick_waiter() {
    atomic {
        if
        :: waits -> waits = false; waiter_token = true
        :: else
        fi
    }
}

/* P3 to P6, for a job also J5. */
inline notify(is_job) {
    do
    :: atomic { searching > 0 || sleeping == 0 && !is_job && !gave_back -> break }
    :: atomic { searching == 0 && sleeping == 0 && (is_job || gave_back) -> pick_waiter(); break }
    :: atomic { searching == 0 && sleeping > 0 -> searching++ } /* P4 */
       /* P5: any sleeper that is not in the driver, else that one. */
       chosen = NOBODY;
       atomic {
           i = 0;
           do
           :: i < WORKERS ->
              if
              :: asleep[i] && i != poller && chosen == NOBODY -> chosen = i
              :: else
              fi;
              i++
           :: else -> break
           od;
           if
           :: chosen == NOBODY && poller != NOBODY ->
              if
              :: asleep[poller] -> chosen = poller
              :: else
              fi
           :: else
           fi;
           if
           :: chosen != NOBODY -> asleep[chosen] = false
           :: else
           fi;
           i = 0
       }
       if
       :: chosen != NOBODY ->
          sleeping--;                 /* P6 */
          token[chosen] = true;
          chosen = NOBODY;
          break
       :: else ->
          searching--;
#ifdef NO_LOOP
          break
#else
#if ROOTS > 0
          gave_back = true;
#endif
          /* The bits once more: no worker lies down, so no worker needs us. */
          atomic {
              i = 0; any = false;
              do
              :: i < WORKERS -> any = any || asleep[i]; i++
              :: else -> i = 0; break
              od
          }
          if
          :: any -> any = false
          :: else ->
#if ROOTS > 0
             if
             :: searching == 0 -> pick_waiter()
             :: else
             fi;
#endif
             break
          fi
#endif
       fi
    od
#if ROOTS > 0
    ;
    gave_back = false
#endif
}

/* What W4 and F2 look at. */
inline look(everywhere) {
    any = injector > 0;
    any_root = roots > 0;
    atomic {
        do
        :: everywhere && i < WORKERS -> any = any || ring[i] > 0; i++
        :: else -> i = 0; break
        od
    }
}

proctype pusher(bool is_first) {
    byte i = 0, chosen = NOBODY, rounds = 0, left = 0;
    bool any = false, gave_back = false;
    if
    :: is_first -> left = ROOTS
    :: else
    fi;
    do
    :: rounds < ROUNDS ->
       injector++;                    /* P1, P2 */
       notify(false);
       rounds++
    :: left > 0 ->
       roots++;                       /* J1, J2 */
       jec = 1;                       /* J3 */
       notify(true);
       left--
    :: rounds == ROUNDS && left == 0 -> break
    od
}

proctype setter() {
    bool was_sleeping = false;
#ifdef NO_UNPARK
    was_sleeping = latch == SLEEPING;
#endif
    atomic {
        stuck < WORKERS || roots_ended == ROOTS ->
#ifndef NO_UNPARK
        was_sleeping = latch == SLEEPING;
#endif
        latch = SET
    }
    if
    :: was_sleeping -> waiter_token = true
    :: else
    fi
}

proctype waiter() {
    byte i = 0, chosen = NOBODY;
    bool any = false, gave_back = false, is_notified = false, found = false;
looking:
    if
    :: latch == SET -> goto returning
    :: else
    fi;
    jec = 0;                          /* S1 */
    atomic {                          /* S2 */
        if
        :: roots > 0 -> roots--; found = true
        :: else
        fi
    }
    if
    :: found ->
       found = false;
       if
       :: is_notified && roots > 0 -> notify(true) /* N */
       :: else
       fi;
       is_notified = false;
       atomic { ended++; roots_ended++ };
       goto looking
    :: else
    fi;
    is_notified = false;
    atomic {
        if
        :: latch == UNSET -> latch = SLEEPING
        :: else -> goto returning
        fi
    }
    waits = true;                     /* L1, L2 */
    if                                /* L3 */
    :: jec != 0 -> goto up
    :: else
    fi;
#ifndef NO_L4
    if                                /* L4 */
    :: roots > 0 || latch == SET -> goto up
    :: else
    fi;
#endif
end_waiting:
    atomic { waiter_token -> waiter_token = false } /* L5 */
up:
    atomic {                          /* L6 */
        is_notified = !waits;
        waits = false
    }
    atomic {
        if
        :: latch == SLEEPING -> latch = UNSET
        :: else
        fi
    }
    goto looking;
returning:
    if
    :: is_notified && roots > 0 -> notify(true) /* N */
    :: else
    fi;
    has_returned = true
}

proctype worker(byte me) {
    byte i = 0, chosen = NOBODY;
    bool any = false, any_root = false, gave_back = false;
    bool found, is_root = false, is_searching = false, was_last = false;
running:
#if ROOTS > 0
    jec = 0;                          /* S1 */
#endif
    /* Own ring, injector (a batch of up to two), then a search. */
    found = false;
    atomic {
        if
        :: ring[me] > 0 -> ring[me]--; found = true
        :: else
        fi
    }
    if
    :: !found ->
       atomic {
           if
           :: injector > 1 -> injector = injector - 2; ring[me]++; found = true
           :: injector == 1 -> injector--; found = true
           :: else
           fi
       }
    :: else
    fi;
#if ROOTS > 0
    if
    :: !found ->
       atomic {
           if
           :: roots > 0 -> roots--; found = true; is_root = true
           :: else
           fi
       }
    :: else
    fi;
#endif
    if
    :: !found ->
       if
       :: is_searching
       :: atomic { !is_searching && MAY_SEARCH -> searching++; is_searching = true }
       :: atomic { !is_searching && !MAY_SEARCH -> goto lying_down }
       fi;
       do
       :: i < WORKERS && !found ->
          atomic {
              if
              :: i != me && ring[i] > 0 -> ring[i]--; found = true
              :: else
              fi;
              i++
          }
       :: else -> i = 0; break
       od
    :: else
    fi;
    if
    :: found ->
       if
       :: is_searching ->
          is_searching = false;
          atomic { was_last = searching == 1; searching-- } /* F1 */
#ifndef NO_F2
          if
          :: was_last ->              /* F2 */
             was_last = false;
             look(true);
             if
             :: any -> any = false; notify(false)
             :: else
             fi;
#if ROOTS > 0
             if
             :: any_root -> any_root = false; notify(true)
             :: else
             fi
#endif
          :: else
          fi
#endif
          was_last = false
       :: else
       fi;
       /* The task: it ends at once, or, unless all others are stuck, when all others are done. All may be
        * stuck while another waits for a latch; then until all roots are done. */
       if
       :: atomic { is_root -> is_root = false; ended++; roots_ended++ }
       :: atomic { !is_root -> ended++ }
       :: atomic { !is_root && ring[me] == 0 && (stuck + 1 < WORKERS || latch != SET && roots_ended < ROOTS) -> stuck++ };
          atomic {
              ended + stuck == WORK || stuck == WORKERS && roots_ended == ROOTS -> ended++; stuck--
          }
       fi;
       goto running
    :: else
    fi;
lying_down:
    atomic {                          /* W1 */
        if
        :: jec != 0 -> goto running
        :: else
        fi;
        sleeping++;
        was_last = false;
        if
        :: is_searching -> was_last = searching == 1; searching--; is_searching = false
        :: else
        fi
    }
    asleep[me] = true;                /* W2, W3 */
#ifndef NO_W4
    look(was_last);                   /* W4 */
    was_last = false;
    if
    :: any || any_root ->
       any = false;
       any_root = false;
       /* The number follows in a step of its own. */
       atomic {
           if
           :: asleep[me] -> asleep[me] = false; found = true
           :: else -> found = false
           fi
       }
       if
       :: found -> atomic { sleeping--; searching++ }
       :: else
       fi;
       found = false;
       is_searching = true;
       goto running
    :: else
    fi;
#endif
    was_last = false;
    atomic {
        if
        :: poller == NOBODY -> poller = me
        :: else
        fi
    }
end_asleep:
    /* W5. An event wakes the poller. */
    if
    :: atomic { token[me] -> token[me] = false }
    :: atomic { poller == me && events > 0 -> events-- }
    fi;
    atomic {
        if
        :: poller == me -> poller = NOBODY
        :: else
        fi;
        if
        :: asleep[me] -> asleep[me] = false; found = true
        :: else -> found = false
        fi
    }
    if
    :: found -> sleeping--; is_searching = false
    :: else -> is_searching = true
    fi;
    found = false;
    goto running
}

init {
    byte n = 0;
    atomic {
        do
        :: n < WORKERS -> run worker(n); n++
        :: else -> break
        od;
        n = 0;
        do
        :: n < PUSHERS -> run pusher(n == 0); n++
        :: else -> break
        od;
        if
        :: ROOTS > 0 -> run waiter(); run setter()
        :: else
        fi
    }
}

ltl all_work_is_run { <> (ended == WORK && (ROOTS == 0 || has_returned)) }
