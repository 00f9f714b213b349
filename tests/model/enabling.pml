/*
 * Enabling and disabling: consumerd/control (Session, StateFile, wait_until_quiescent) on one side, libtrace's update.cc,
 * guard.cc and update_signal.cc on the other. One process with two threads that trace one event; a controller that enables
 * it in session 1, disables it, and does the same with session 2, whose channel takes the place of the first one's.
 *
 * What must hold
 *   no_store_once_disabled          when disable() has returned and reported nobody, the event writes nothing more
 *   nothing_is_unmapped_in_use      every store goes to a channel that is mapped
 *   a_query_is_whole                a process never acts by half of a rule set
 *   nobody_is_ended_by_our_signal   who gets it without our handler does not notice it
 *   no_wait_without_end             the controller's waits end, by an acknowledgement or by a reason
 *   nothing_stays_mapped            when the last session has ended everywhere, its channel is unmapped
 *
 * How it is modelled
 *   A signal is delivered at any step of a thread that does not block it; its handler is a process of its own, during
 *   which the thread stands still and after which a sequence begins anew. A thread may also be taken out of what it does
 *   by a handler of the program's that jumps (JUMPS). Restarting every sequence is one step, as membarrier() is when it
 *   has returned. Atomic read-modify-writes and seq_cst stores are steps that everybody sees at once; the two places
 *   where that matters are defects in which the store comes late, which is all that a store buffer can do.
 *   Time does not pass: what the controller does after a time, it does when nothing else can happen (`timeout`), and
 *   signals once more; if that does not help, the wait has no end.
 *
 * What is left out: memory order weaker than x86's; objects that come and go; who is concerned by a rule; forks and slots
 * (slots.pml); the place of a record (ring.pml). Where membarrier() fails, the runtime waits 20 ms instead of restarting
 * sequences: then only what is unmapped is looked at. And the signals that are never blocked: an update that was left by a
 * jump of theirs is begun anew by the same thread (stress_leaving).
 *
 *   * check  disabling -DEMITS=1 -DGENERATIONS=2
 *   * check  jumping -DEMITS=1 -DGENERATIONS=2 -DJUMPS
 *   * check  exec -DEMITS=1 -DGENERATIONS=2 -DEXECS
 *   * check  blocking -DEMITS=1 -DGENERATIONS=2 -DBLOCKS
 *   * check  no_membarrier -DEMITS=1 -DGENERATIONS=2 -DMEMBARRIER_FAILS
 *   * defect REAL_TIME_SIGNAL in exec breaks nobody_is_ended_by_our_signal
 *   * defect GUARD_HELD_WITH_SIGNALS in jumping breaks no_wait_without_end
 *   * defect UPDATE_WITH_SIGNALS in jumping breaks no_wait_without_end
 *   * defect MEMBARRIER_RESULT_IGNORED in no_membarrier breaks nothing_is_unmapped_in_use
 *   * defect NO_MEMBARRIER in disabling breaks nothing_is_unmapped_in_use
 *   * defect GUARD_STORED_LATE in disabling breaks nothing_is_unmapped_in_use
 *   * defect SWITCHED_OFF_LATE in disabling breaks nothing_is_unmapped_in_use
 *   * defect ACKNOWLEDGED_WHILE_PENDING in disabling breaks no_store_once_disabled
 */
#define THREADS 2
#define SESSIONS 2

hidden byte promise_no_store_once_disabled;
hidden byte promise_nothing_is_unmapped_in_use;
hidden byte promise_a_query_is_whole;
hidden byte promise_nobody_is_ended_by_our_signal;
hidden byte promise_no_wait_without_end;
hidden byte promise_nothing_stays_mapped;
#define PROMISE(name, condition) assert((condition) || promise_##name != 0)

/* The state file. A rule set is two words, which hold the session that wants the event, or 0. */
byte generation;
byte first_half[2], second_half[2];
byte acknowledged;
#ifdef DEFECT_ONE_RULE_SET
#define SET(g) 0
#else
#define SET(g) ((g) % 2)
#endif

/* The process: struct Runtime, attachments[], the event. */
bool event_on, usable, quiesce_pending, updating, sequences_lost;
byte attached, writers; /* session whose channel the slow path, and the fast path, find at the place */
byte update_requests, followed;
byte guards[THREADS], remembered_guards[THREADS];
bool mapped[SESSIONS + 1];
bool closed[SESSIONS + 1];
bool has_execed;

/* Threads. */
bool in_sequence[THREADS], restarted[THREADS];
bool pending[THREADS], in_handler[THREADS];
byte held[THREADS]; /* SignalsHeld, nested */
bool thread_ended[THREADS];
bool program_blocks;

/* For the promises. */
bool is_disabled; /* disable() has returned, and reported nobody */
bool controller_is_dead, controllers_ended;

byte asked_generation, asked, asked_again; /* of the owner of `updating` */
bool any;
byte u;

#define IS_QUIESCENT                                                            \
    ((remembered_guards[0] == 0 || guards[0] != remembered_guards[0]) &&        \
     (remembered_guards[1] == 0 || guards[1] != remembered_guards[1]))

inline store_record() {
    PROMISE(nothing_is_unmapped_in_use, mapped[seen] || has_execed);
    PROMISE(no_store_once_disabled, !is_disabled || sequences_lost || has_execed)
}

#ifdef DEFECT_MEMBARRIER_RESULT_IGNORED
#define KEEPS_MAPPED false
#else
#define KEEPS_MAPPED true
#endif

inline quiesced() {
    atomic {
        quiesce_pending = false;
        if
        :: attached != 0 && !usable ->
            mapped[attached] = sequences_lost && KEEPS_MAPPED; /* detach() */
            attached = 0
        :: else
        fi
    }
}

inline switch_off() {
    atomic {
        any = false;
        if
        :: usable && attached != asked -> usable = false; any = true
        :: else
        fi
    }
    atomic {
        if
        :: event_on && !(usable && attached == asked) -> event_on = false; any = true
        :: else
        fi
    }
}

inline restart_sequences() {
#ifndef DEFECT_NO_MEMBARRIER
    if
    :: atomic { true -> restarted[0] = in_sequence[0]; restarted[1] = in_sequence[1] }
#ifdef MEMBARRIER_FAILS
    :: sequences_lost = true /* lose_sequences() */
#endif
    fi
#else
    skip
#endif
}

inline remember_guards() {
    remembered_guards[0] = (guards[0] % 2 == 1 -> guards[0] : 0);
    remembered_guards[1] = (guards[1] % 2 == 1 -> guards[1] : 0)
}

#define QUIESCED_IF_QUIESCENT                                 \
    atomic {                                                  \
        if                                                    \
        :: quiesce_pending && IS_QUIESCENT -> quiesced()      \
        :: else                                               \
        fi                                                    \
    }

inline update() {
    QUIESCED_IF_QUIESCENT;
    do /* plumb_query() */
    :: atomic { asked_generation = generation; asked = first_half[SET(asked_generation)] }
       asked_again = second_half[SET(asked_generation)];
       atomic {
           if
           :: generation == asked_generation -> break
           :: else
           fi
       }
    od;
    atomic { PROMISE(a_query_is_whole, asked == asked_again); followed = asked_generation; asked_again = 0 }
#ifdef DEFECT_SWITCHED_OFF_LATE
    remember_guards();
#endif
    switch_off();
    if
    :: any ->
        restart_sequences(); /* begin_quiescence() */
#ifndef DEFECT_SWITCHED_OFF_LATE
        remember_guards();
#endif
        atomic { quiesce_pending = true; any = false }
    :: else
    fi;
    QUIESCED_IF_QUIESCENT;
    if
    :: asked != 0 ->
        atomic {
            if
            :: attached == 0 -> mapped[asked] = true; attached = asked; usable = true; writers = asked /* attach_new() */
            :: else
            fi
        }
        atomic {
            if
            :: attached == asked && usable && !closed[asked] -> event_on = true /* switch_on() */
            :: else
            fi
        }
    :: else
    fi;
    atomic {
        if
#ifdef DEFECT_ACKNOWLEDGED_WHILE_PENDING
        :: true -> acknowledged = asked_generation
#else
        :: !quiesce_pending -> acknowledged = asked_generation
        :: else
#endif
        fi;
        asked = 0; asked_generation = 0
    }
}

/* With all signals blocked, but for the defect: then a handler may jump out of it, and leaves it owned. */
inline request_update(t) {
#ifndef DEFECT_UPDATE_WITH_SIGNALS
    held[t]++;
#endif
    update_requests++;
    do
    :: atomic { updating -> break }
    :: atomic { !updating -> updating = true }
#ifdef DEFECT_UPDATE_WITH_SIGNALS
       if
       :: true -> served = 255; break
       :: true
       fi;
#endif
       do
       :: served = update_requests;
          update();
          atomic {
              if
              :: served == update_requests -> break
              :: else
              fi
          }
       od;
       updating = false;
#ifdef DEFECT_REQUEST_NOT_SEEN_AGAIN
       break
#else
       atomic {
           if
           :: served == update_requests -> break
           :: else
           fi
       }
#endif
    od;
    served = 0;
#ifndef DEFECT_UPDATE_WITH_SIGNALS
    held[t]--
#endif
}

#ifdef JUMPS
#define MAY_JUMP :: atomic { !in_handler[me] && held[me] == 0 && !has_execed -> in_sequence[me] = false; restarted[me] = false; goto emit }
#else
#define MAY_JUMP
#endif
#define STEP(work) do :: atomic { !in_handler[me] && !has_execed -> work; break } MAY_JUMP :: atomic { has_execed -> goto over } od

#ifdef DEFECT_GUARD_HELD_WITH_SIGNALS
#define HOLD_SIGNALS(by) skip
#else
#define HOLD_SIGNALS(by) held[me] = held[me] + by
#endif

proctype tracer(byte me) {
    byte emits, seen, served;
emit:
    STEP(
        seen = 0;
        if
        :: emits == EMITS -> goto over
        :: else -> emits++
        fi;
        if
        :: sequences_lost -> goto slow
        :: !sequences_lost -> goto slow
        :: !sequences_lost
        fi);

plumb_write_fast:
    STEP(in_sequence[me] = true; restarted[me] = false;
        if
        :: event_on -> seen = writers
        :: else -> in_sequence[me] = false; goto emit
        fi);
    STEP(
        if
        :: restarted[me] -> in_sequence[me] = false; restarted[me] = false; goto plumb_write_fast
        :: else -> store_record(); in_sequence[me] = false; goto emit
        fi);

slow: /* attempt_write(), with signals held */
    STEP(HOLD_SIGNALS(1);
#ifndef DEFECT_GUARD_STORED_LATE
        guards[me]++ /* Guard(): barrier A */
#else
        skip
#endif
    );
    STEP(
        if
        :: usable && event_on -> seen = attached
        :: else -> seen = 0
        fi);
#ifdef DEFECT_GUARD_STORED_LATE
    STEP(guards[me]++);
#endif
    if
    :: seen != 0 ->
        STEP(
            if
            :: closed[seen] -> event_on = false
            :: else -> store_record()
            fi;
            seen = 0)
    :: else
    fi;
    STEP(guards[me]++); /* ~Guard(): barrier C */
#ifndef DEFECT_LAST_GUARD_DOES_NOT_UPDATE
    if
    :: quiesce_pending && IS_QUIESCENT -> request_update(me)
    :: else
    fi;
#endif
    if
    :: followed != generation -> request_update(me) /* follow_if_moved() */
    :: else
    fi;
    STEP(HOLD_SIGNALS(-1); goto emit);

over:
    atomic {
        in_sequence[me] = false; restarted[me] = false; emits = 0; seen = 0;
        thread_ended[me] = (me == 1) /* the first thread stays, and can be signalled */
    }
}

#ifdef DEFECT_REAL_TIME_SIGNAL
#define DEFAULT_IS_TO_IGNORE false
#else
#define DEFAULT_IS_TO_IGNORE true
#endif

/* The update signal, as a thread takes it. */
proctype handler(byte me) {
    byte served;
end:
    do
    :: atomic { pending[me] && thread_ended[me] -> pending[me] = false }
    :: atomic {
           pending[me] && !thread_ended[me] && held[me] == 0 && !(program_blocks && !has_execed) ->
           pending[me] = false;
           if
           :: has_execed -> PROMISE(nobody_is_ended_by_our_signal, DEFAULT_IS_TO_IGNORE)
           :: else ->
               in_handler[me] = true;
               restarted[me] = restarted[me] || in_sequence[me]
           fi
       }
       if
       :: in_handler[me] -> request_update(me); in_handler[me] = false
       :: else
       fi
    od
}

#ifdef CONTROLLER_DIES
#define MAY_BE_KILLED if :: true :: mortal -> goto killed fi
#else
#define MAY_BE_KILLED skip
#endif

/* StateFile::publish(), with the lock held. */
inline publish(session) {
    first_half[SET(generation + 1)] = session;
    MAY_BE_KILLED;
    second_half[SET(generation + 1)] = session;
    MAY_BE_KILLED;
    generation++
}

/* Wait: a signal to one thread that does not block it, if it has our handler. */
inline wait_until_quiescent(reported) {
    tries = 0; reported = false;
    do
    :: atomic { acknowledged >= generation -> break }
    :: atomic { has_execed -> break } /* its slot is freed */
    :: atomic {
           acknowledged < generation && !has_execed && tries == 0 && program_blocks -> reported = true; break
       }
    :: acknowledged < generation && !has_execed && tries == 0 && !program_blocks -> /* has_handler(): then the signal, a step later */
        atomic {
            if
            :: pending[0] = true
            :: !thread_ended[1] -> pending[1] = true
            fi;
            tries++
        }
    :: atomic {
           timeout ->
           PROMISE(no_wait_without_end, tries < 3);
           pending[0] = true; tries++
       }
    od;
    tries = 0
}

proctype controller() {
    byte tries, session = 1;
    bool reported, mortal = true;
again:
    publish(session); /* enable() */
    MAY_BE_KILLED;
    wait_until_quiescent(reported);
    MAY_BE_KILLED;
    publish(0); /* disable(), end() */
    wait_until_quiescent(reported);
    is_disabled = !reported;
    MAY_BE_KILLED;
    is_disabled = false;
    closed[session] = true;
    if
    :: session < SESSIONS && generation < GENERATIONS -> session++; goto again
    :: else -> goto over
    fi;
#ifdef CONTROLLER_DIES
killed: /* another one: remove_dead(), and its own session */
    atomic { mortal = false; is_disabled = false; reported = false; tries = 0; closed[1] = true }
    publish(0);
    session = 2;
    goto again;
#endif
over:
    controllers_ended = true;
    do
    :: atomic {
           timeout ->
           PROMISE(nothing_stays_mapped, (!mapped[1] && !mapped[2]) || sequences_lost || has_execed || reported);
           break
       }
    od
}

#ifdef EXECS
/* Any thread calls exec(): all others are gone, and with them the handlers and what was held. */
proctype exec_caller() {
    atomic {
        held[0] == 0 && !in_handler[0] && held[1] == 0 && !in_handler[1] ->
        has_execed = true
    }
}
#endif

init {
    atomic {
#ifdef BLOCKS
        program_blocks = true;
#endif
        run tracer(0);
        run tracer(1);
        run handler(0);
        run handler(1);
        run controller();
#ifdef EXECS
        run exec_caller();
#endif
    }
}
