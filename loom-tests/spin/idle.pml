/* The sleep protocol of runtime/src/scheduler/sleep/idle.rs, for ever: every task and every injected job that
 * is pushed is eventually run, and a worker that waits for a latch goes on when it is set.
 *
 * Loom explores orderings and finite runs; this explores infinite ones under weak fairness, with sequential
 * consistency. Steps have the names they have in idle.rs. Actors: PUSHERS threads outside, each of which
 * pushes ROUNDS tasks; WORKERS workers, which take tasks from the injector or, as searchers, from the other
 * workers' rings. A worker that finds the driver free sleeps in it, the others sleep on their tokens; an
 * event may end that sleep without a task. A worker may get stuck in a task until all other tasks have been
 * run. (Its ring is empty then: what is in a ring may be seen late.) If a thread relies on a searcher, its
 * work is run even if the searcher finds something else.
 *
 * With -DINJECTED=n, one of the threads outside also pushes n injected jobs, and one more worker waits for a
 * latch. It runs injected jobs meanwhile and no tasks. All the other workers may then be stuck until the
 * waiting worker has run all injected jobs; the latch is set at any other time. The events counter is counted
 * modulo 2, so that it makes a full turn whenever a worker gets sleepy after a post.
 *
 * Faults, one at a time: -DNO_SLEEP_LOOK (a sleeper does not look again), -DNO_SEARCHER_LOOK (the last
 * searcher that finds work looks for no more), -DNO_LOOP (a notifier that finds no bit does not look again);
 * with injected jobs also -DNO_LATCH_LOOK (a waiter does not look again), -DNO_UNPARK (the setter of a latch
 * looks at it in a step of its own).
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
#ifndef INJECTED
#define INJECTED 0
#endif
#define WORK (PUSHERS * ROUNDS + INJECTED)
#define NO_WORKER 255
#define UNSET 0
#define SLEEPING 1
#define SET 2

byte injector = 0;              /* tasks in the injector */
byte ring[WORKERS];             /* tasks in each worker's ring */
byte searching = 0, sleeping = 0; /* the word: changed in single steps */
bool asleep[WORKERS];           /* the worker sleeps and has not been notified */
bool token[WORKERS];            /* unparked */
byte poller = NO_WORKER;           /* the worker that sleeps in the driver */
byte ended = 0;                   /* tasks and injected jobs that were run */
#ifndef EVENTS
#define EVENTS 1
#endif
byte events = EVENTS;           /* that may still come */
byte stuck = 0;                 /* workers inside a task that lasts until the others are done */

byte injected = 0;                 /* in the job injector */
byte injected_ended = 0;
bit jec = 0;                    /* the jobs event counter */
byte latch = UNSET;
bool waits = false;             /* the waiter's bit */
bool waiter_token = false;
bool has_returned = false;      /* the waiter, whose latch is set */

/* A worker may begin to search only if fewer than half of the workers search already. */
#define MAY_SEARCH (2 * searching < WORKERS)

/* ClearWaiter. */
inline pick_waiter() {
    atomic {
        if
        :: waits -> waits = false; waiter_token = true
        :: else
        fi
    }
}

/* ReadCounts to UnparkSleeper, for a job also ClearWaiter. */
inline notify(is_job) {
    do
    :: atomic { searching > 0 || sleeping == 0 && !is_job && !gave_back -> break }
    :: atomic { searching == 0 && sleeping == 0 && (is_job || gave_back) -> pick_waiter(); break }
    :: atomic { searching == 0 && sleeping > 0 -> searching++ } /* CountSearcher */
       /* ClearSleeper: any sleeper that is not in the driver, else that one. */
       chosen = NO_WORKER;
       atomic {
           i = 0;
           do
           :: i < WORKERS ->
              if
              :: asleep[i] && i != poller && chosen == NO_WORKER -> chosen = i
              :: else
              fi;
              i++
           :: else -> break
           od;
           if
           :: chosen == NO_WORKER && poller != NO_WORKER ->
              if
              :: asleep[poller] -> chosen = poller
              :: else
              fi
           :: else
           fi;
           if
           :: chosen != NO_WORKER -> asleep[chosen] = false
           :: else
           fi;
           i = 0
       }
       if
       :: chosen != NO_WORKER ->
          sleeping--;                 /* UnparkSleeper */
          token[chosen] = true;
          chosen = NO_WORKER;
          break
       :: else ->
          searching--;
#ifdef NO_LOOP
          break
#else
#if INJECTED > 0
          gave_back = true;
#endif
          /* The bits once more: no worker falls asleep, so no worker needs us. */
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
#if INJECTED > 0
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
#if INJECTED > 0
    ;
    gave_back = false
#endif
}

/* What SleepLook and SearcherLook look at. */
inline look(everywhere) {
    any = injector > 0;
    any_injected = injected > 0;
    atomic {
        do
        :: everywhere && i < WORKERS -> any = any || ring[i] > 0; i++
        :: else -> i = 0; break
        od
    }
}

proctype pusher(bool is_first) {
    byte i = 0, chosen = NO_WORKER, rounds = 0, left = 0;
    bool any = false, gave_back = false;
    if
    :: is_first -> left = INJECTED
    :: else
    fi;
    do
    :: rounds < ROUNDS ->
       injector++;                    /* PushTask, PushFence */
       notify(false);
       rounds++
    :: left > 0 ->
       injected++;                       /* PublishJob, JobFence */
       jec = 1;                       /* CountPost */
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
        stuck < WORKERS || injected_ended == INJECTED ->
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
    byte i = 0, chosen = NO_WORKER;
    bool any = false, gave_back = false, is_notified = false, found = false;
looking:
    if
    :: latch == SET -> goto returning
    :: else
    fi;
    jec = 0;                          /* GetSleepy */
    atomic {                          /* SleepyLook */
        if
        :: injected > 0 -> injected--; found = true
        :: else
        fi
    }
    if
    :: found ->
       found = false;
       if
       :: is_notified && injected > 0 -> notify(true) /* NotifiedLook */
       :: else
       fi;
       is_notified = false;
       atomic { ended++; injected_ended++ };
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
    waits = true;                     /* LatchShow, LatchFence */
    if                                /* LatchReadPosts */
    :: jec != 0 -> goto up
    :: else
    fi;
#ifndef NO_LATCH_LOOK
    if                                /* LatchLook */
    :: injected > 0 || latch == SET -> goto up
    :: else
    fi;
#endif
end_waiting:
    atomic { waiter_token -> waiter_token = false } /* WaiterPark */
up:
    atomic {                          /* LatchHide */
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
    :: is_notified && injected > 0 -> notify(true) /* NotifiedLook */
    :: else
    fi;
    has_returned = true
}

proctype worker(byte me) {
    byte i = 0, chosen = NO_WORKER;
    bool any = false, any_injected = false, gave_back = false;
    bool found, is_injected = false, is_searching = false, was_last = false;
running:
#if INJECTED > 0
    jec = 0;                          /* GetSleepy */
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
#if INJECTED > 0
    if
    :: !found ->
       atomic {
           if
           :: injected > 0 -> injected--; found = true; is_injected = true
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
       :: atomic { !is_searching && !MAY_SEARCH -> goto falling_asleep }
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
          atomic { was_last = searching == 1; searching-- } /* UncountSearcher */
#ifndef NO_SEARCHER_LOOK
          if
          :: was_last ->              /* SearcherLook */
             was_last = false;
             look(true);
             if
             :: any -> any = false; notify(false)
             :: else
             fi;
#if INJECTED > 0
             if
             :: any_injected -> any_injected = false; notify(true)
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
        * stuck while another waits for a latch; then until all injected jobs are done. */
       if
       :: atomic { is_injected -> is_injected = false; ended++; injected_ended++ }
       :: atomic { !is_injected -> ended++ }
       :: atomic {
              !is_injected && ring[me] == 0 &&
                  (stuck + 1 < WORKERS || latch != SET && injected_ended < INJECTED) -> stuck++
          };
          atomic {
              ended + stuck == WORK || stuck == WORKERS && injected_ended == INJECTED -> ended++; stuck--
          }
       fi;
       goto running
    :: else
    fi;
falling_asleep:
    atomic {                          /* CountSleeper */
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
    asleep[me] = true;                /* ShowSleeper, SleepFence */
#ifndef NO_SLEEP_LOOK
    look(was_last);                   /* SleepLook */
    was_last = false;
    if
    :: any || any_injected ->
       any = false;
       any_injected = false;
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
        :: poller == NO_WORKER -> poller = me
        :: else
        fi
    }
end_asleep:
    /* SleepPark. An event wakes the poller. */
    if
    :: atomic { token[me] -> token[me] = false }
    :: atomic { poller == me && events > 0 -> events-- }
    fi;
    atomic {
        if
        :: poller == me -> poller = NO_WORKER
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
        :: INJECTED > 0 -> run waiter(); run setter()
        :: else
        fi
    }
}

ltl all_work_is_run { <> (ended == WORK && (INJECTED == 0 || has_returned)) }
