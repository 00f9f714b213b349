/*
 * What is held by a word that names its holder: the extra rings, which are written without restartable sequences
 * (libtrace/ring/owner.cc, write_extra() and write_owned() of write.cc, OthersWait), and the guards (guard.cc).
 *
 * What must hold
 *   each_record_is_read_once       what is published is whole, stays as it was and is nobody else's
 *   a_living_owner_keeps_its_word  nobody takes what a living thread holds
 *   no_ring_is_held_for_nothing    nobody goes without while a ring is held by nobody who is inside, and can be judged
 *   nobody_waits_again_in_vain     a wait that ended by its time-out is not repeated by every event
 *   nothing_is_unmapped_in_use     no guard is freed whose holder may still use what an update unmaps
 *   no_wait_without_end            an update that waits for guards ends, also when their holders are gone
 *
 * How it is modelled
 *   A thread is known by namespace and id; it may be killed at any step (those whose bit is in MORTALS), is a zombie
 *   then, and gone when somebody has waited for it; after that its id may come round, in a new thread.
 *   Signals are blocked while a word is held, but for those that answer what the thread does (signals_held.h): their
 *   handlers may come at any step inside, and jump out or trace (ANSWERS); the thread knows whether it is alone, or in a
 *   handler that interrupted itself; who jumps comes by once more. A defect lets one fork. Time does not pass: a time-out happens when nothing else can
 *   (`timeout`).
 *   The consumer is not there: what it could read is looked at by the step that publishes, and at the end once more.
 *
 * What is left out: memory order weaker than x86's; sub-buffers, boundaries and the consumer (ring.pml); processes held
 * for their seccomp filter, which can not block signals. And of owner words, which have no room for a count: an id that
 * comes round between a look at the dead owner and the compare-and-swap behind it. Guards have a count.
 *
 *   * check  rings -DWRITERS=3 -DRINGS=1 -DRECORDS=2 -DRECORDS_OF_FIRST=1 -DMORTALS=1
 *   * check  two_rings -DWRITERS=3 -DRINGS=2 -DRECORDS=1 -DMORTALS=3
 *   * check  come_round -DWRITERS=2 -DRINGS=1 -DRECORDS=2 -DMORTALS=1 -DCOMES_ROUND
 *   * check  spaces -DWRITERS=3 -DRINGS=1 -DRECORDS=2 -DRECORDS_OF_FIRST=1 -DMORTALS=5 -DTWO_SPACES
 *   * check  handlers -DWRITERS=2 -DRINGS=1 -DRECORDS=2 -DMORTALS=0 -DFORKS
 *   * check  answers -DWRITERS=2 -DRINGS=1 -DRECORDS=2 -DMORTALS=0 -DANSWERS
 *   * check  answers_and_rings -DWRITERS=2 -DRINGS=2 -DRECORDS=2 -DMORTALS=0 -DANSWERS
 *   * check  guards -DGUARDS=2 -DUSERS=2 -DUSES=2 -DMORTALS=1 -DCOMES_ROUND
 *   * check  one_guard -DGUARDS=1 -DUSERS=3 -DUSES=1 -DMORTALS=3
 *   * defect TAKEN_WITHOUT_COMPARING in rings breaks a_living_owner_keeps_its_word
 *   * defect PLANNED_BEFORE_TAKEN in rings breaks each_record_is_read_once
 *   * defect LEFT_BEFORE_PUBLISHED in rings breaks each_record_is_read_once
 *   * defect DEAD_NOT_LOOKED_FOR in rings breaks no_ring_is_held_for_nothing
 *   * defect ZOMBIES_LIVE in rings breaks no_ring_is_held_for_nothing
 *   * defect WAITS_AGAIN in spaces breaks nobody_waits_again_in_vain
 *   * defect JUDGED_ACROSS_SPACES in spaces breaks a_living_owner_keeps_its_word
 *   * defect WORD_WITHOUT_SPACE in spaces breaks a_living_owner_keeps_its_word
 *   * defect OWN_WORD_STAYS in answers breaks no_ring_is_held_for_nothing
 *   * defect FORKED_WHILE_HELD in handlers breaks each_record_is_read_once
 *   * defect OWN_WORD_TAKEN_IN_HANDLERS in answers breaks a_living_owner_keeps_its_word
 *   * defect GUARD_WITHOUT_COUNT in guards breaks a_living_owner_keeps_its_word
 *   * defect GUARDS_OF_THE_DEAD_STAY in guards breaks no_wait_without_end
 *   * defect BUSY_GUARDS_TAKEN_BACK in guards breaks a_living_owner_keeps_its_word
 *   * defect GUARDS_NOT_REMEMBERED in guards breaks nothing_is_unmapped_in_use
 */
hidden byte promise_each_record_is_read_once;
hidden byte promise_a_living_owner_keeps_its_word;
hidden byte promise_no_ring_is_held_for_nothing;
hidden byte promise_nobody_waits_again_in_vain;
hidden byte promise_nothing_is_unmapped_in_use;
hidden byte promise_no_wait_without_end;
#define PROMISE(name, condition) assert((condition) || promise_##name != 0)

#define IS_MORTAL ((MORTALS >> me) % 2 == 1)
#define THREADS 6
mtype = { LIVES, ZOMBIE, GONE };
mtype life[THREADS] = GONE;
bool has_come_round[THREADS];
byte u;

#ifdef DEFECT_ZOMBIES_LIVE
#define IS_GONE(thread) (life[thread] == GONE)
#else
#define IS_GONE(thread) (life[thread] != LIVES)
#endif

#ifndef GUARDS
#define CELLS (WRITERS * RECORDS + 2)
#ifndef RECORDS_OF_FIRST
#define RECORDS_OF_FIRST RECORDS
#endif
#define NO_RECORD 255

/* Namespaces: threads 0 and 1 are in the first; 2 in the second, where its id is that of thread 0. */
#ifdef TWO_SPACES
#define SPACE(thread) ((thread) / 2)
#else
#define SPACE(thread) 0
#endif
/* The thread that a look at the id meets in the looker's own namespace. */
#ifdef DEFECT_JUDGED_ACROSS_SPACES
#define CAN_JUDGE(me, word) true
#define JUDGED(me, word) (SPACE(me) == 0 -> ((word)-1) % 2 : ((word)-1) % 2 + 2)
#else
#define CAN_JUDGE(me, word) (SPACE(me) == SPACE((word)-1))
#define JUDGED(me, word) ((word)-1)
#endif
#ifdef DEFECT_WORD_WITHOUT_SPACE
#define OWNER_WORD(thread) ((thread) % 2 + 1)
#else
#define OWNER_WORD(thread) ((thread) + 1)
#endif

/* The channel. */
byte owner[RINGS];
byte write_pos[RINGS];
byte header[RINGS * CELLS] = NO_RECORD;
byte payload[RINGS * CELLS] = NO_RECORD;

byte judged_gone[THREADS];    /* how many are between is_gone() and their compare-and-swap */
bool given_up[2];             /* OthersWait: of each namespace's process */
bool in_vain[THREADS];        /* its last wait was */
bool has_changed[THREADS];    /* since its last look */
byte holders[RINGS];          /* living threads that are inside */
bool was_published[WRITERS * RECORDS + 2];
bool has_forked, has_jumped, has_traced, handler_runs;

inline something_changed() {
    d_step {
        u = 0;
        do
        :: u < THREADS -> has_changed[u] = true; u++
        :: else -> break
        od;
        u = 0
    }
}

#define MAY_DIE :: atomic { IS_MORTAL && !nested && !has_come_round[me] -> goto killed }
#define STEP(work) do :: atomic { !waits_for_handler -> work; break } MAY_DIE od

#ifdef FORKS
#define MAY_FORK(condition, ring_, at_)                                                            \
    if                                                                                             \
    :: atomic { me == 0 && !nested && !has_forked && (condition) ->                                \
           has_forked = true; life[3] = LIVES; run writer(3, ring_, at_, false) }                  \
    :: true                                                                                        \
    fi
#else
#define MAY_FORK(condition, ring_, at_) skip
#endif
#ifdef ANSWERS
#define MAY_JUMP                                                                                   \
    if                                                                                             \
    :: atomic { me == 0 && !nested && !has_jumped && written < RECORDS ->                          \
           has_jumped = true; holders[ring]--; something_changed(); goto next_record }             \
    :: true                                                                                        \
    fi
#define MAY_TRACE                                                                                  \
    if                                                                                             \
    :: atomic { me == 0 && !nested && !has_traced ->                                               \
           has_traced = true; handler_runs = true; waits_for_handler = true;                       \
           run writer(0, RINGS, 0, true) }                                                         \
       atomic { !handler_runs -> waits_for_handler = false }                                       \
    :: true                                                                                        \
    fi
#else
#define MAY_JUMP skip
#define MAY_TRACE skip
#endif
#ifdef DEFECT_OWN_WORD_STAYS
#define IS_ALONE false
#elif defined(DEFECT_OWN_WORD_TAKEN_IN_HANDLERS)
#define IS_ALONE true
#else
#define IS_ALONE (!nested)
#endif
#ifdef DEFECT_FORKED_WHILE_HELD
#define HELD_FORK MAY_FORK(true, ring, at)
#else
#define HELD_FORK skip
#endif

#define RECORD (me == 3 || nested -> WRITERS * RECORDS : me * RECORDS + written - 1)

/* The child of a fork in a handler goes on as its parent would, at `at` of `ring`. */
proctype writer(byte me; byte ring; byte at; bool nested) {
    byte written, seen;
    bool thorough, waits_for_handler;
    if
    :: ring < RINGS -> written = 1; goto planned
    :: else
    fi;

next_record:
    atomic {
        seen = 0; ring = 0; at = 0;
        if
        :: written == (me >= 2 || nested -> 1 : (me == 0 -> RECORDS_OF_FIRST : RECORDS)) -> goto over
        :: else -> written++
        fi;
        thorough = false;
        if
        :: given_up[SPACE(me)] -> thorough = true /* the 256th event */
        :: true
        fi
    }
    MAY_FORK(true, RINGS, 0);

attempt: /* take_extra_ring(), with signals blocked from here on */
    STEP(has_changed[me] = false; ring = 0);
look:
    STEP(
        if
        :: ring == RINGS -> goto none
        :: else -> seen = owner[ring]
        fi;
#ifdef DEFECT_PLANNED_BEFORE_TAKEN
        at = write_pos[ring];
#endif
        if
        :: seen == 0 || (seen == OWNER_WORD(me) && IS_ALONE) -> goto take
        :: seen != 0 && thorough && seen != OWNER_WORD(me) && CAN_JUDGE(me, seen)
        :: else -> ring++; goto look
        fi);
    STEP( /* is_gone() */
        if
        :: IS_GONE(JUDGED(me, seen)) -> judged_gone[seen - 1]++
        :: else -> ring++; goto look
        fi);
take:
    STEP(
        if
        :: seen != 0 && seen != OWNER_WORD(me) -> judged_gone[seen - 1]--
        :: else
        fi;
        if
#ifdef DEFECT_TAKEN_WITHOUT_COMPARING
        :: true ->
#else
        :: owner[ring] != seen -> ring++; seen = 0; goto look
        :: else ->
#endif
            owner[ring] = OWNER_WORD(me);
            PROMISE(a_living_owner_keeps_its_word, holders[ring] == 0);
            holders[ring]++;
            seen = 0; given_up[SPACE(me)] = false; in_vain[me] = false /* OthersWait::over() */
        fi);
#ifndef DEFECT_PLANNED_BEFORE_TAKEN
    MAY_JUMP;
    STEP(at = write_pos[ring]); /* write_owned() */
#endif
planned:
    HELD_FORK;
    STEP(header[ring * CELLS + at] = RECORD);
    MAY_TRACE;
    MAY_JUMP;
    STEP(payload[ring * CELLS + at] = RECORD);
    MAY_JUMP;
#ifdef DEFECT_LEFT_BEFORE_PUBLISHED
    STEP(owner[ring] = 0; holders[ring]--; something_changed());
#endif
    STEP(
        PROMISE(each_record_is_read_once, write_pos[ring] == at && header[ring * CELLS + at] == RECORD &&
                payload[ring * CELLS + at] == RECORD && !was_published[RECORD]);
        was_published[RECORD] = true;
        write_pos[ring] = at + 1);
#ifndef DEFECT_LEFT_BEFORE_PUBLISHED
    STEP(owner[ring] = 0; holders[ring]--; something_changed()); /* leave_extra_ring() */
#endif
    goto next_record;

none: /* OthersWait, with nothing held */
    atomic {
        ring = 0; seen = 0;
        if
#ifndef DEFECT_DEAD_NOT_LOOKED_FOR
        :: !thorough && !given_up[SPACE(me)] -> thorough = true; goto attempt
#endif
#ifndef DEFECT_WAITS_AGAIN
        :: given_up[SPACE(me)] -> goto next_record /* count_contended() */
#endif
        :: else
        fi
    }
    do
    :: atomic { has_changed[me] -> thorough = false; goto attempt }
    :: atomic {
           timeout ->
           u = 0;
           do
           :: u < RINGS ->
               PROMISE(no_ring_is_held_for_nothing, owner[u] != 0 && (SPACE(owner[u] - 1) != SPACE(me) ||
                       has_come_round[owner[u] - 1] || (handler_runs && owner[u] == OWNER_WORD(0))));
               u++
           :: else -> break
           od;
           u = 0;
           PROMISE(nobody_waits_again_in_vain, !in_vain[me]);
           in_vain[me] = true; given_up[SPACE(me)] = true;
           goto next_record
       }
    MAY_DIE
    od;

killed:
    atomic {
        if
        :: ring < RINGS && owner[ring] == OWNER_WORD(me) && holders[ring] > 0 -> holders[ring]--
        :: else
        fi;
        if
        :: seen != 0 && judged_gone[seen - 1] > 0 -> judged_gone[seen - 1]-- /* who waited for it will look again */
        :: else
        fi;
        seen = 0; at = 0; ring = 0; thorough = false;
        life[me] = ZOMBIE; something_changed()
    }
    if
    :: atomic { life[me] = GONE; something_changed() }
    :: skip /* nobody waits for it */
    fi;
#ifdef COMES_ROUND
    if
    :: atomic {
           life[me] == GONE && judged_gone[me] == 0 && written < RECORDS_OF_FIRST ->
           life[me] = LIVES; has_come_round[me] = true; goto next_record
       }
    :: skip
    fi;
#endif

over:
    atomic {
        handler_runs = handler_runs && !nested;
        written = 0; thorough = false; ring = 0; seen = 0; at = 0
    }
}

init {
    atomic {
        do
        :: u < WRITERS -> life[u] = LIVES; run writer(u, RINGS, 0, false); u++
        :: else -> break
        od;
        u = 0
    }
    atomic { /* once all have ended */
        _nr_pr == 1 ->
        do
        :: u < RINGS * CELLS ->
            PROMISE(each_record_is_read_once, u % CELLS >= write_pos[u / CELLS] ||
                    (header[u] == payload[u] && header[u] != NO_RECORD && was_published[header[u]]));
            u++
        :: else -> break
        od;
        u = 0
    }
}

#else
/* Guards of one process. Its threads use what is attached; an update switches it off and unmaps it. A word is the
 * number of its uses, the user's id, and whether it is busy. */
#define WORD(count, user) ((count) * 8 + (user) * 2 + 1)
#define IS_BUSY(word) ((word) % 2 == 1)
#define USER_OF(word) ((word) / 2 % 4)
#ifdef DEFECT_GUARD_WITHOUT_COUNT
#define FREE_AFTER(word) 0
#else
#define FREE_AFTER(word) (((word) / 8 + 1) * 8)
#endif

byte guards[GUARDS], remembered_guards[GUARDS];
bool attached, mapped, quiesce_pending;
bool is_inside[USERS];
bool controller_waits;

#define IS_QUIESCENT                                                           \
    ((remembered_guards[0] == 0 || guards[0] != remembered_guards[0]) &&       \
     (GUARDS == 1 || remembered_guards[GUARDS - 1] == 0 || guards[GUARDS - 1] != remembered_guards[GUARDS - 1]))

inline quiesced() {
    quiesce_pending = false; mapped = false; controller_waits = false
}

/* For every guard, or those that were remembered. */
inline take_back_guards(all) {
    index = 0;
    do
    :: atomic { index == GUARDS -> index = 0; word = 0; break }
    :: atomic { index < GUARDS -> word = guards[index] }
#ifdef DEFECT_BUSY_GUARDS_TAKEN_BACK
       if
       :: atomic { IS_BUSY(word) ->
#else
       if
       :: atomic { IS_BUSY(word) && (all || word == remembered_guards[index]) && IS_GONE(USER_OF(word)) ->
#endif
              skip }
          atomic {
              if
              :: guards[index] == word ->
                  PROMISE(a_living_owner_keeps_its_word, !is_inside[USER_OF(word)] || inside_by[USER_OF(word)] != index);
                  guards[index] = FREE_AFTER(word)
              :: else
              fi
          }
       :: else
       fi;
       index++
    od
}

byte inside_by[USERS];

#define MAY_DIE :: atomic { IS_MORTAL && !has_come_round[me] -> goto killed }
#define STEP(work) do :: atomic { true -> work; break } MAY_DIE od

proctype user(byte me) {
    byte uses, index, held, word;
    bool seen, thorough;
next_use:
    atomic {
        thorough = false; index = 0;
        if
        :: uses == USES -> goto over
        :: else -> uses++
        fi
    }
take: /* Guard::take() */
    STEP(
        if
        :: index == GUARDS -> index = 0; goto none
        :: index < GUARDS && IS_BUSY(guards[index]) -> index++; goto take
        :: else -> word = guards[index]
        fi);
    STEP(
        if
        :: guards[index] != word -> index++; word = 0; goto take
        :: else -> /* barrier A */
            held = index; guards[index] = (word - word % 8) + 2 * me + 1; word = guards[index];
            is_inside[me] = true; inside_by[me] = index; index = 0
        fi);
    STEP(seen = attached);
    STEP(PROMISE(nothing_is_unmapped_in_use, !seen || mapped));
    STEP(guards[held] = FREE_AFTER(word); is_inside[me] = false; seen = false; held = 0; word = 0); /* barrier C */
    STEP(
        if
        :: quiesce_pending && IS_QUIESCENT -> quiesced()
        :: else
        fi;
        goto next_use);
none: /* Guard(), thorough; then OthersWait */
    STEP(
        if
        :: thorough -> goto next_use
        :: else -> thorough = true
        fi);
    take_back_guards(true);
    goto take;

killed:
    atomic {
        is_inside[me] = false; seen = false; index = 0; held = 0; word = 0; thorough = false;
        life[me] = ZOMBIE
    }
    if
    :: life[me] = GONE
    :: skip
    fi;
#ifdef COMES_ROUND
    if
    :: atomic { life[me] == GONE && uses < USES -> life[me] = LIVES; has_come_round[me] = true; goto next_use }
    :: skip
    fi;
#endif
over:
    atomic { uses = 0; index = 0; held = 0; word = 0; thorough = false }
}

/* What a controller asks for: the event is off, the channel is to be unmapped. It asks again when nothing happens. */
proctype updater() {
    byte index, word, asked;
again:
    atomic { asked++; attached = false } /* switch_off() */
    if
    :: !quiesce_pending && mapped -> /* begin_quiescence(): barrier B */
        do
        :: atomic {
               index < GUARDS ->
#ifdef DEFECT_GUARDS_NOT_REMEMBERED
               remembered_guards[index] = 0;
#else
               remembered_guards[index] = (IS_BUSY(guards[index]) -> guards[index] : 0);
#endif
               index++
           }
        :: atomic { index == GUARDS -> index = 0; quiesce_pending = true; break }
        od
    :: else
    fi;
    if /* is_quiescent_without_the_dead() */
    :: atomic { quiesce_pending && IS_QUIESCENT -> quiesced() }
    :: atomic { quiesce_pending && !IS_QUIESCENT -> skip }
#ifndef DEFECT_GUARDS_OF_THE_DEAD_STAY
       take_back_guards(false);
#endif
       atomic {
           if
           :: quiesce_pending && IS_QUIESCENT -> quiesced()
           :: else
           fi
       }
    :: atomic { !quiesce_pending -> skip }
    fi;
    do
    :: atomic { !controller_waits -> break }
    :: atomic {
           timeout ->
           /* What a thread held whose id another one has now stays taken until that one ends. */
           PROMISE(no_wait_without_end, asked < 3 || has_come_round[0] || has_come_round[1]);
           if
           :: asked < 3 -> goto again
           :: else -> break
           fi
       }
    od
}

init {
    atomic {
        attached = true; mapped = true; controller_waits = true;
        do
        :: u < USERS -> life[u] = LIVES; run user(u); u++
        :: else -> break
        od;
        u = 0;
        run updater()
    }
}
#endif
