/* The sleep protocol of runtime/src/scheduler/idle.rs, for ever: every task that is pushed is eventually run.
 *
 * Loom explores orderings and finite runs; this explores infinite ones under weak fairness, with sequential consistency.
 * Steps have the names they have in idle.rs. Actors: PUSHERS threads outside, each of which pushes ROUNDS tasks; WORKERS
 * workers, which take tasks from the injector or, as searchers, from the other workers' rings. Whoever finds the driver free
 * sleeps in it, the others on their tokens; an event may end that sleep without a task. A task may be one that its worker
 * is stuck in until all other tasks have been run (its ring being empty: what is there may be seen late): whoever relies
 * on a searcher must not be betrayed by its finding something else.
 *
 * Faults, one at a time: -DNO_W4 (a sleeper does not look again), -DNO_F2 (the last searcher that finds work looks for no
 * more), -DNO_LOOP (a notifier that finds no bit does not look again).
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
#define TASKS (PUSHERS * ROUNDS)
#define NOBODY 255

byte injector = 0;              /* tasks in the injector */
byte ring[WORKERS];             /* tasks in each worker's ring */
byte searching = 0, sleeping = 0; /* the word: changed in single steps */
bool asleep[WORKERS];           /* who sleeps and has not been notified */
bool token[WORKERS];            /* unparked */
byte sitter = NOBODY;           /* who sleeps in the driver */
byte ended = 0;                   /* tasks that were run */
byte events = 1;                /* that may still come */
byte stuck = 0;                 /* workers inside a task that lasts until the others are done */

/* A searcher may be picked only if fewer than half search already. */
#define MAY_SEARCH (2 * searching < WORKERS)

/* P3 to P6. */
inline notify() {
    do
    :: atomic { searching > 0 || sleeping == 0 -> break }
    :: atomic { searching == 0 && sleeping > 0 -> searching++ } /* P4 */
       /* P5: any sleeper that is not in the driver, else that one. */
       chosen = NOBODY;
       atomic {
           i = 0;
           do
           :: i < WORKERS ->
              if
              :: asleep[i] && i != sitter && chosen == NOBODY -> chosen = i
              :: else
              fi;
              i++
           :: else -> break
           od;
           if
           :: chosen == NOBODY && sitter != NOBODY ->
              if
              :: asleep[sitter] -> chosen = sitter
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
          /* The bits once more: nobody lies down, so nobody needs us. */
          atomic {
              i = 0; any = false;
              do
              :: i < WORKERS -> any = any || asleep[i]; i++
              :: else -> i = 0; break
              od
          }
          if
          :: any -> any = false
          :: else -> break
          fi
#endif
       fi
    od
}

/* What W4 and F2 look at. */
inline look(everywhere) {
    any = injector > 0;
    atomic {
        do
        :: everywhere && i < WORKERS -> any = any || ring[i] > 0; i++
        :: else -> i = 0; break
        od
    }
}

proctype pusher() {
    byte i = 0, chosen = NOBODY, rounds = 0;
    bool any = false;
    do
    :: rounds < ROUNDS ->
       injector++;                    /* P1, P2 */
       notify();
       rounds++
    :: else -> break
    od
}

proctype worker(byte me) {
    byte i = 0, chosen = NOBODY;
    bool any = false, found, is_searching = false, was_last = false;
running:
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
             :: any -> any = false; notify()
             :: else
             fi
          :: else
          fi
#endif
          was_last = false
       :: else
       fi;
       /* The task: it ends at once, or, unless all others are stuck, when all others are done. */
       if
       :: ended++
       :: atomic { ring[me] == 0 && stuck + 1 < WORKERS -> stuck++ };
          atomic { ended + stuck == TASKS -> ended++; stuck-- }
       fi;
       goto running
    :: else
    fi;
lying_down:
    atomic {                          /* W1 */
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
    :: any ->
       any = false;
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
        :: sitter == NOBODY -> sitter = me
        :: else
        fi
    }
end_asleep:
    /* W5. An event wakes whoever sits in the driver. */
    if
    :: atomic { token[me] -> token[me] = false }
    :: atomic { sitter == me && events > 0 -> events-- }
    fi;
    atomic {
        if
        :: sitter == me -> sitter = NOBODY
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
        :: n < PUSHERS -> run pusher(); n++
        :: else -> break
        od
    }
}

ltl every_task_is_run { <> (ended == TASKS) }
