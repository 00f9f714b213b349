/*
 * The state file's process slots and sessions: claim_slot(), announce_handler() and release_slot() of
 * libtrace/state_file.cc on one side; StateFile (consumerd/control/state.cc), the wait for quiescence and the life lock
 * of recorders on the other.
 *
 * What must hold
 *   nobody_gets_our_signal_without_our_handler  who is signalled has a handler of ours for that signal
 *   a_living_program_keeps_its_slot      nobody frees or takes a slot whose claimer still runs
 *   the_slots_of_the_dead_are_found      when all is quiet, a recorder of that namespace frees what they left
 *   a_living_session_is_never_removed    neither its entry in the rules nor its channel, by a recorder of any namespace
 *   the_sessions_of_the_dead_are_found   the next recorder removes them, also what died between two steps
 *   no_wait_without_end                  a recorder that died with the lock holds nobody up
 *
 * How it is modelled
 *   A process is a namespace and a number; a number may come round when its process is gone (a zombie is not), with
 *   a later start time. Programs run in processes: one after another by exec(), or two runtimes at once. A program may be
 *   killed at any step. A claim word is namespace, number and count, one value for each program that claims.
 *   Some programs have a handler of their own for the signal that others listen on, and listen on another one.
 *   The last look at a process (maps the state file, catches the signal) and the signal are one step: what comes
 *   between those two is in enabling.pml, where who gets the signal then does not notice it.
 *
 * What is left out: that claim_slot() judges others in a second round alone, when none was free (what the
 * first one leaves is left as if its process had ended just behind the look); memory order weaker than x86's; counts that come round (1024 claims between a look and the
 * compare-and-swap behind it); start times that are equal because the clock is coarse; recorders that see into another
 * namespace, which translate numbers and then do as in their own; acknowledgements and rules (enabling.pml). And a
 * program that is traced behind exec() and has its own handler for the signal of the slot that was left: until it takes
 * that slot over it may hear as many signals as PLUMB_UNANSWERED_MAX says.
 *
 *   * check  come_round -DPROGRAMS=2 -DSLOTS=2 -DCOME_ROUND -DROUNDS=2
 *   * check  strangers -DPROGRAMS=3 -DSLOTS=1 -DCOME_ROUND -DROUNDS=1
 *   * check  exec -DPROGRAMS=2 -DSLOTS=2 -DEXEC -DROUNDS=2
 *   * check  spaces -DPROGRAMS=2 -DSLOTS=1 -DTWO_SPACES -DROUNDS=1
 *   * check  two_runtimes -DPROGRAMS=3 -DSLOTS=2 -DTWO_RUNTIMES -DROUNDS=1
 *   * check  sessions -DRECORDERS=4
 *   * defect JUDGED_ACROSS_SPACES in spaces breaks a_living_program_keeps_its_slot
 *   * defect CLAIM_WITHOUT_SPACE in spaces breaks a_living_program_keeps_its_slot
 *   * defect FREED_IN_TWO_STEPS in come_round breaks a_living_program_keeps_its_slot
 *   * defect CLAIM_WITHOUT_COUNT in come_round breaks a_living_program_keeps_its_slot
 *   * defect CLAIMED_WITHOUT_COMPARING in strangers breaks a_living_program_keeps_its_slot
 *   * defect COPY_NOT_LOOKED_AT_AGAIN in come_round breaks nobody_gets_our_signal_without_our_handler
 *   * defect READY_OF_ANY_CLAIM in come_round breaks nobody_gets_our_signal_without_our_handler
 *   * defect START_NOT_COMPARED in come_round breaks nobody_gets_our_signal_without_our_handler
 *   * defect START_NOT_COMPARED_BY_CLEANER in come_round breaks the_slots_of_the_dead_are_found
 *   * defect MAPS_NOT_LOOKED_AT in exec breaks nobody_gets_our_signal_without_our_handler
 *   * defect IMAGE_OF_ANY_CLAIM in two_runtimes breaks a_living_program_keeps_its_slot
 *   * defect CLAIM_BEFORE_STATE_IS_MAPPED in come_round breaks a_living_program_keeps_its_slot
 *   * defect RECORDER_JUDGED_BY_ID in sessions breaks a_living_session_is_never_removed
 *   * defect NAMED_BEFORE_LOCKED in sessions breaks a_living_session_is_never_removed
 *   * defect EDITED_WITHOUT_LOCK in sessions breaks a_living_session_is_never_removed
 *   * defect LOCK_STAYS_WITH_THE_DEAD in sessions breaks no_wait_without_end
 *   * defect CHILD_KEEPS_LIFE_LOCK in sessions breaks the_sessions_of_the_dead_are_found
 */
hidden byte promise_nobody_gets_our_signal_without_our_handler;
hidden byte promise_a_living_program_keeps_its_slot;
hidden byte promise_the_slots_of_the_dead_are_found;
hidden byte promise_a_living_session_is_never_removed;
hidden byte promise_the_sessions_of_the_dead_are_found;
hidden byte promise_no_wait_without_end;
#define PROMISE(name, condition) assert((condition) || promise_##name != 0)

byte u;

#ifdef PROGRAMS
/* Who is who. Process 0 and 1 are in the first namespace, 2 in the second, with the number of process 0. */
#define PROCESSES 3
#if defined(TWO_SPACES)
#define PROCESS_OF(program) ((program) * 2)
#define IMAGE_OF(program) (program)
#elif defined(TWO_RUNTIMES)
#define PROCESS_OF(program) 0
#define IMAGE_OF(program) ((program) == 0 -> 0 : 1) /* the first one was there before, and called exec() or died */
#else
#define PROCESS_OF(program) ((program) == 2)
#define IMAGE_OF(program) (program)
#endif
#define SPACE_OF(process) ((process) / 2)
/* The second one may be untraced, with a handler of its own for the signal that the others listen on; or it is traced,
 * and listens on another signal. */
#ifdef TWO_RUNTIMES
#define LISTENS_ON(program) 1
#define MAY_BE_UNTRACED false
#else
#define LISTENS_ON(program) ((program) == 1 -> 2 : 1)
#define MAY_BE_UNTRACED ((me) == 1)
#endif
#ifdef COME_ROUND
#define OWN_SIGNAL(program) ((program) == 1 -> 1 : 0)
#else
#define OWN_SIGNAL(program) 0
#endif

/* A claim word: process * 4 + count, + 1; the count is that of the program. */
#ifdef DEFECT_CLAIM_WITHOUT_COUNT
#define COUNT_OF(program) 0
#else
#define COUNT_OF(program) (program)
#endif
#define CLAIM(program) (NAMED(PROCESS_OF(program)) * 4 + COUNT_OF(program) + 1)
#ifdef DEFECT_CLAIM_WITHOUT_SPACE
#define NAMED(process) ((process) % 2)
#define SEEN_AS(claim, space) (((claim)-1) / 4 + (space) * 2)
#define CAN_JUDGE(claim, space) true
#else
#define NAMED(process) (process)
#define SEEN_AS(claim, space) ((((claim)-1) / 4) % 2 + (space) * 2)
#ifdef DEFECT_JUDGED_ACROSS_SPACES
#define CAN_JUDGE(claim, space) true
#else
#define CAN_JUDGE(claim, space) (SPACE_OF(((claim)-1) / 4) == (space))
#endif
#endif

/* The state file. `ready` is 0 or, as flags say it, the count of the claim that is ready, + 1. */
byte claim[SLOTS], image[SLOTS], signal_number[SLOTS], registered[SLOTS], ready[SLOTS];
#ifdef DEFECT_READY_OF_ANY_CLAIM
#define IS_READY(claim_, ready_) ((ready_) != 0)
#else
#define IS_READY(claim_, ready_) ((ready_) == ((claim_)-1) % 4 + 1)
#endif

/* Processes, as the kernel knows them. */
bool exists[4], is_zombie[4], maps[4];
byte started[4];
byte ours[4]; /* the signal for which it has a handler of ours */
byte own[4];
byte now;
#define LIVES(process) (exists[process] && !is_zombie[process])

/* Programs, for the promises. */
bool runs[PROGRAMS], is_over[PROGRAMS];
byte claimer[SLOTS]; /* program + 1 */

inline loses_slot(index_) {
    PROMISE(a_living_program_keeps_its_slot, claimer[index_] == 0 || !runs[claimer[index_] - 1]);
    claimer[index_] = 0
}

#define STEP(work)                                                        \
    do                                                                    \
    :: atomic { runs[me] -> work; break }                                 \
    :: atomic { runs[me] -> goto killed }                                 \
    :: atomic { !runs[me] -> goto over }                                  \
    od

proctype program(byte me) {
    byte index, there;

    /* It starts, or is what another one calls exec() for, or a second runtime in a process. */
#if defined(EXEC)
    if
    :: me == 0 -> atomic { exists[0] = true; now++; started[0] = now; runs[0] = true }
    :: me == 1 && runs[1]
    :: me == 1 && is_over[0] && !runs[1] -> goto over
    fi;
#elif defined(TWO_RUNTIMES)
    if
    :: atomic { me == 0 -> exists[0] = true; now++; started[0] = now; runs[0] = true }
    :: atomic {
           me == 1 && is_over[0] && !exists[0] ->
           exists[0] = true; now++; started[0] = now; runs[1] = true; runs[2] = true
       }
    :: me == 1 && is_over[0] && exists[0] -> goto over
    :: me == 2 && runs[2]
    :: me == 2 && is_over[1] && !runs[2] -> goto over
    fi;
#else
    if
    :: atomic {
           !exists[PROCESS_OF(me)] && (me != 1 || PROCESS_OF(1) != 0 || is_over[0]) ->
           exists[PROCESS_OF(me)] = true; now++; started[PROCESS_OF(me)] = now; runs[me] = true
       }
    :: atomic { exists[PROCESS_OF(me)] && me == 1 && is_over[0] -> goto over }
    fi;
#endif
    STEP(own[PROCESS_OF(me)] = OWN_SIGNAL(me));
    if
    :: MAY_BE_UNTRACED -> own[PROCESS_OF(me)] = 1; goto over
    :: true
    fi;
#ifndef DEFECT_CLAIM_BEFORE_STATE_IS_MAPPED
    STEP(maps[PROCESS_OF(me)] = true); /* open_state() */
#endif
    STEP(ours[PROCESS_OF(me)] = LISTENS_ON(me)); /* install_handler() */

claim_slot:
    STEP(
        if
        :: index == SLOTS -> goto listening
        :: index < SLOTS -> there = claim[index]
        fi;
        if /* is_left_over() */
        :: there == 0
        :: there != 0 && !CAN_JUDGE(there, SPACE_OF(PROCESS_OF(me))) -> index++; goto claim_slot
        :: there != 0 && CAN_JUDGE(there, SPACE_OF(PROCESS_OF(me))) &&
           SEEN_AS(there, SPACE_OF(PROCESS_OF(me))) == PROCESS_OF(me)
        :: else ->
            if
            :: exists[SEEN_AS(there, SPACE_OF(PROCESS_OF(me)))] -> index++; goto claim_slot
            :: else
            fi
        fi);
    if
    :: there != 0 && CAN_JUDGE(there, SPACE_OF(PROCESS_OF(me))) &&
       SEEN_AS(there, SPACE_OF(PROCESS_OF(me))) == PROCESS_OF(me) ->
#ifndef DEFECT_IMAGE_OF_ANY_CLAIM
        STEP(
            if
            :: !IS_READY(there, ready[index]) -> index++; goto claim_slot
            :: else
            fi);
#endif
        STEP(
            if
            :: image[index] == IMAGE_OF(me) + 1 -> index++; goto claim_slot
            :: else
            fi)
    :: else
    fi;
    STEP(
        if
#ifdef DEFECT_CLAIMED_WITHOUT_COMPARING
        :: true ->
#else
        :: claim[index] != there -> index++; there = 0; goto claim_slot
        :: else ->
#endif
            claim[index] = CLAIM(me); loses_slot(index); claimer[index] = me + 1; there = 0
        fi);
#if !defined(DEFECT_READY_OF_ANY_CLAIM)
    STEP(ready[index] = 0);
#endif
#ifdef DEFECT_CLAIM_BEFORE_STATE_IS_MAPPED
    STEP(maps[PROCESS_OF(me)] = true);
#endif
    STEP(image[index] = IMAGE_OF(me) + 1);
    STEP(registered[index] = now);
    STEP(signal_number[index] = LISTENS_ON(me)); /* announce_handler() */
    STEP(ready[index] = COUNT_OF(me) + 1);

listening:
    if
    :: goto over /* it goes on for ever */
    :: true
#ifdef EXEC
    :: atomic { /* exec() */
           me == 0 && runs[0] ->
           runs[0] = false; runs[1] = true; is_over[0] = true;
           maps[0] = false; ours[0] = 0; own[0] = 0;
           goto over
       }
#endif
    fi;
    STEP( /* release_slot() */
        if
        :: index < SLOTS && claim[index] == CLAIM(me) -> claimer[index] = 0; claim[index] = 0
        :: else
        fi);

killed:
    atomic {
        if
        :: runs[me] ->
            u = 0;
            do
            :: u < PROGRAMS ->
                if
                :: PROCESS_OF(u) == PROCESS_OF(me) -> runs[u] = false
                :: else
                fi;
                u++
            :: else -> break
            od;
            u = 0;
            is_zombie[PROCESS_OF(me)] = true; maps[PROCESS_OF(me)] = false; ours[PROCESS_OF(me)] = 0; own[PROCESS_OF(me)] = 0
        :: else -> goto over
        fi
    }
    if
    :: atomic { is_zombie[PROCESS_OF(me)] -> is_zombie[PROCESS_OF(me)] = false; exists[PROCESS_OF(me)] = false }
    :: skip
    fi;
over:
    atomic { index = 0; there = 0; is_over[me] = true }
}

inline free_slot() {
#ifdef DEFECT_FREED_IN_TWO_STEPS
    if
    :: atomic { registered[index] == registered_then -> skip }
    :: atomic { registered[index] != registered_then -> there = 0 }
    fi;
    atomic {
        if
        :: there != 0 -> loses_slot(index); claim[index] = 0
        :: else
        fi
    }
#else
    atomic {
        if
        :: claim[index] == there -> loses_slot(index); claim[index] = 0
        :: else
        fi
    }
#endif
}

#ifdef DEFECT_MAPS_NOT_LOOKED_AT
#define MAPS_STATE(process) true
#else
#define MAPS_STATE(process) maps[process]
#endif
#ifdef DEFECT_START_NOT_COMPARED
#define IS_YOUNGER(process) false
#else
#define IS_YOUNGER(process) (started[process] > registered_then)
#endif
#ifdef DEFECT_START_NOT_COMPARED_BY_CLEANER
#define IS_SAME(process) LIVES(process)
#else
#define IS_SAME(process) (LIVES(process) && started[process] <= registered_then)
#endif

/* A recorder: clean_up() and a wait for quiescence, over and over; and what it would find in the end. */
proctype recorder(byte space) {
    byte rounds, index, there, ready_then, registered_then, signal_then, process;
    bool cleans, last;
again:
    do
    :: atomic { index == SLOTS -> index = 0; rounds++; break }
    :: atomic { index < SLOTS && claim[index] == 0 -> index++ }
    :: atomic {
           index < SLOTS && claim[index] != 0 ->
           there = claim[index];
           if
           :: !CAN_JUDGE(there, space) -> there = 0; index++; goto again
           :: else -> process = SEEN_AS(there, space)
           fi;
           if
           :: cleans = true
           :: !last
           fi
       }
       ready_then = ready[index];
       registered_then = registered[index];
       signal_then = signal_number[index];
#ifndef DEFECT_COPY_NOT_LOOKED_AT_AGAIN
       if /* copy_of(): all of one claim */
       :: atomic { claim[index] != there -> there = 0; ready_then = 0; registered_then = 0; signal_then = 0; cleans = false; process = 0; goto again }
       :: atomic { claim[index] == there -> skip }
       fi;
#endif
       if
       :: cleans -> /* remove_processes() */
           if
           :: atomic { IS_SAME(process) -> skip }
           :: atomic { !IS_SAME(process) -> skip }
               if
               :: atomic { LIVES(process) && maps[process] -> skip } /* it may be about to fill the slot */
               :: atomic { !(LIVES(process) && maps[process]) -> skip }
                  free_slot()
               fi
           fi
       :: !cleans -> /* Wait: look, then send() */
           if
           :: atomic { !IS_READY(there, ready_then) || !LIVES(process) || IS_YOUNGER(process) -> skip }
           :: atomic {
                  IS_READY(there, ready_then) && LIVES(process) && !IS_YOUNGER(process) && MAPS_STATE(process) ->
                  if
                  :: signal_then != 0 && (ours[process] == signal_then || own[process] == signal_then) -> /* has_handler() */
                      PROMISE(nobody_gets_our_signal_without_our_handler, ours[process] == signal_then)
                  :: else
                  fi
              }
           :: atomic { IS_READY(there, ready_then) && LIVES(process) && !IS_YOUNGER(process) && !MAPS_STATE(process) -> skip }
              free_slot()
           fi
       fi;
       atomic { there = 0; ready_then = 0; registered_then = 0; signal_then = 0; process = 0; cleans = false; index++ }
    od;
    if
    :: rounds < ROUNDS -> goto again
    :: rounds == ROUNDS -> timeout -> last = true; goto again
    :: else
    fi;
    atomic {
        do
        :: index < SLOTS ->
            PROMISE(the_slots_of_the_dead_are_found, claim[index] == 0 || runs[claimer[index] - 1] || !CAN_JUDGE(claim[index], space) ||
                    (LIVES(SEEN_AS(claim[index], space)) && (maps[SEEN_AS(claim[index], space)] ||
                    started[SEEN_AS(claim[index], space)] <= registered[index])));
            index++
        :: else -> index = 0; break
        od
    }
}

init {
    atomic {
        do
        :: u < PROGRAMS -> run program(u); u++
        :: else -> break
        od;
        u = 0;
#ifdef TWO_SPACES
        run recorder(1)
#else
        run recorder(0)
#endif
    }
}

#else
/* Sessions. Recorder 1 is in another namespace than 0 and 2. */
#define SPACE_OF(recorder) ((recorder) % 2)
#define SESSIONS 2

byte sessions[SESSIONS]; /* recorder + 1; the rules, as the last generation has them */
bool is_named[RECORDERS], life_lock[RECORDERS], is_alive[RECORDERS], has_session[RECORDERS];
byte lock; /* recorder + 1 */

#ifdef DEFECT_RECORDER_JUDGED_BY_ID
#define RECORDER_LIVES(recorder) (is_alive[recorder] && SPACE_OF(recorder) == SPACE_OF(me))
#else
#define RECORDER_LIVES(recorder) life_lock[recorder]
#endif

#define MAY_DIE :: atomic { me != RECORDERS - 1 -> goto killed }
#define STEP(condition, work) do :: atomic { (condition) -> work; break } MAY_DIE od

inline take_lock() {
#ifdef DEFECT_EDITED_WITHOUT_LOCK
    skip
#else
    do
    :: atomic { lock == 0 -> lock = me + 1; break }
    :: atomic { timeout -> PROMISE(no_wait_without_end, false) } /* not reached */
    MAY_DIE
    od
#endif
}
inline leave_lock() {
#ifdef DEFECT_EDITED_WITHOUT_LOCK
    skip
#else
    STEP(true, lock = 0)
#endif
}

/* remove_dead(), in a copy of the rules. */
inline copy_and_remove_dead() {
    STEP(true, next[0] = sessions[0]; next[1] = sessions[1]; index = 0);
    do
    :: atomic { index == SESSIONS -> index = 0; break }
    :: atomic { index < SESSIONS && (next[index] == 0 || RECORDER_LIVES(next[index] - 1)) -> index++ }
    :: atomic {
           index < SESSIONS && next[index] != 0 && !RECORDER_LIVES(next[index] - 1) ->
           PROMISE(a_living_session_is_never_removed, !is_alive[next[index] - 1]);
           is_named[next[index] - 1] = false; /* retire_dead_channel() */
           next[index] = 0; index++
       }
    MAY_DIE
    od
}

inline publish() {
    STEP(true, sessions[0] = next[0]; sessions[1] = next[1]; next[0] = 0; next[1] = 0)
}

proctype recorder(byte me) {
    byte next[SESSIONS];
    byte index;
    is_alive[me] = true;
    take_lock(); /* clean_up() */
    copy_and_remove_dead();
    publish();
    do /* remove_channels(): of whom no session speaks */
    :: atomic { index == RECORDERS -> index = 0; break }
    :: atomic {
           index < RECORDERS ->
           if
           :: is_named[index] && sessions[0] != index + 1 && sessions[1] != index + 1 && !RECORDER_LIVES(index) ->
               PROMISE(a_living_session_is_never_removed, !is_alive[index]);
               is_named[index] = false
           :: else
           fi;
           index++
       }
    MAY_DIE
    od;
    leave_lock();

#ifdef DEFECT_NAMED_BEFORE_LOCKED
    STEP(true, is_named[me] = true);
    STEP(true, life_lock[me] = true);
#else
    STEP(true, life_lock[me] = true); /* Channel::create(): the file has no name yet */
    STEP(true, is_named[me] = true);
#endif
    take_lock();
    copy_and_remove_dead();
    STEP(true,
        if
        :: next[0] == 0 -> next[0] = me + 1
        :: next[0] != 0 && next[1] == 0 -> next[1] = me + 1
        :: else -> next[0] = 0; next[1] = 0; goto refused
        fi);
    publish();
    has_session[me] = true;
    leave_lock();

    take_lock(); /* end() */
    PROMISE(a_living_session_is_never_removed, sessions[0] == me + 1 || sessions[1] == me + 1);
    copy_and_remove_dead();
    STEP(true,
        if
        :: next[0] == me + 1 -> next[0] = 0
        :: else
        fi;
        if
        :: next[1] == me + 1 -> next[1] = 0
        :: else
        fi);
    publish();
refused:
    leave_lock();
    STEP(true, is_named[me] = false);
    STEP(true, is_alive[me] = false; life_lock[me] = false; has_session[me] = false);
    goto over;

killed:
    atomic {
        is_alive[me] = false; has_session[me] = false; next[0] = 0; next[1] = 0; index = 0;
#ifndef DEFECT_CHILD_KEEPS_LIFE_LOCK
        life_lock[me] = false;
#endif
#ifndef DEFECT_LOCK_STAYS_WITH_THE_DEAD
        if
        :: lock == me + 1 -> lock = 0
        :: else
        fi
#else
        skip
#endif
    }
over:
    skip
}

init {
    atomic {
        do
        :: u < RECORDERS - 1 -> run recorder(u); u++
        :: else -> break
        od;
        u = 0
    }
    /* The last one comes when nobody else does anything any more, and is not killed. */
    timeout -> run recorder(RECORDERS - 1);
    atomic {
        timeout ->
        PROMISE(the_sessions_of_the_dead_are_found, sessions[0] == 0 && sessions[1] == 0 && !is_named[0] &&
                !is_named[1] && !is_named[2] && !is_named[RECORDERS - 1])
    }
}
#endif
