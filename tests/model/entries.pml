/*
 * Who wrote: the entries of a channel. libtrace/introduce.cc and entries.cc put them there, the consumer copies them into
 * the trace (Drain, ChannelReader::take_new_entries()) and gives their slots back (EntryRecycler, free_entry()).
 *
 * What must hold
 *   a_record_finds_its_entry_in_the_channel  as long as it was not read: a recorder may be killed at any time
 *   a_record_finds_its_entry_in_the_trace    the last one for its thread id that is not younger than the record; from when
 *                                            the record is there, since nobody adds to the trace of a killed recorder
 *   an_entry_is_whole                        what the consumer copies is one writer's, and complete
 *   a_living_thread_keeps_its_entry          since it tells of itself once
 *   slots_come_round                         what the dead left can be used again
 *
 * How it is modelled
 *   A life is a thread from its beginning to its end, or until it is killed, at any step; its id may come round in a
 *   later life. It introduces itself, then writes records. Time is the number of readings of the clock for entries
 *   and by the consumer; a record has that of the last one. The rings are a bag of records, all of which are copied by one
 *   step of the consumer, and written by another one when it has written entries: so it is for each piece of a ring. Time
 *   does not go back in the trace: who comes late gets that of the last one. The table is always full enough for the
 *   recycler to look for what may go.
 *
 * What is left out: memory order weaker than x86's; sizes of blocks; damage; a slot that is lost because its claimer was
 * killed (one for each such death); processes and objects, which go by the same rules, but for what their children need;
 * writers that found no slot, whose records are counted as having no entry.
 *
 *   * check  recycling -DLIVES=2 -DSLOTS=2 -DRECORDS=1 -DTURNS=2
 *   * check  come_round -DLIVES=2 -DSLOTS=2 -DRECORDS=2 -DTURNS=2 -DCOMES_ROUND
 *   * check  second_runtime -DLIVES=1 -DSLOTS=1 -DRECORDS=2 -DTURNS=2 -DSECOND_RUNTIME
 *   * check  forks -DLIVES=2 -DSLOTS=2 -DRECORDS=1 -DTURNS=2 -DFORKS
 *   * check  used_again -DLIVES=3 -DSLOTS=1 -DRECORDS=1 -DTURNS=3 -DONE_AFTER_THE_OTHER
 *   * check  channels -DCHANNELS=2
 *   * defect CLAIMED_WITHOUT_COMPARING in recycling breaks a_record_finds_its_entry_in_the_trace
 *   * defect PUBLISHED_BEFORE_WRITTEN in recycling breaks an_entry_is_whole
 *   * defect RECORD_BEFORE_ENTRY in recycling breaks a_record_finds_its_entry_in_the_channel
 *   * defect FREED_IN_THE_SAME_PASS in recycling breaks a_record_finds_its_entry_in_the_channel
 *   * defect FREED_BEFORE_READING in recycling breaks a_record_finds_its_entry_in_the_channel
 *   * defect FREED_WHEN_OLD in recycling breaks a_living_thread_keeps_its_entry
 *   * defect TAKEN_FOR_EVER in used_again breaks a_record_finds_its_entry_in_the_trace
 *   * defect TIME_READ_BEHIND_PUBLISHING in come_round breaks a_record_finds_its_entry_in_the_trace
 *   * defect HELD_FOR_A_TURN in recycling breaks a_record_finds_its_entry_in_the_trace
 *   * defect YOUNGER_THAN_THE_LOOK in recycling breaks a_record_finds_its_entry_in_the_trace
 *   * defect COUNTED_BEFORE_PUBLISHING in recycling breaks a_record_finds_its_entry_in_the_trace
 *   * defect COUNT_SEEN_BEHIND_THE_LOOK in recycling breaks a_record_finds_its_entry_in_the_trace
 *   * defect SUPERSEDED_BY_PROCESS in second_runtime breaks a_living_thread_keeps_its_entry
 *   * defect CHILD_IS_INTRODUCED in forks breaks a_record_finds_its_entry_in_the_channel
 *   * defect NEVER_FREED in used_again breaks slots_come_round
 *   * defect EPOCH_READ_BEHIND_ATTACHMENTS in channels breaks a_record_finds_its_entry_in_the_channel
 */
hidden byte promise_a_record_finds_its_entry_in_the_channel;
hidden byte promise_a_record_finds_its_entry_in_the_trace;
hidden byte promise_an_entry_is_whole;
hidden byte promise_a_living_thread_keeps_its_entry;
hidden byte promise_slots_come_round;
#define PROMISE(name, condition) assert((condition) || promise_##name != 0)

byte u;

#ifdef LIVES
#define NOBODY 255
#ifdef COMES_ROUND
#define THREAD_ID(life) 0
#else
#define THREAD_ID(life) (life)
#endif

/* The channel. */
mtype = { EMPTY, CLAIMED, PUBLISHED, FREED };
mtype slot[SLOTS] = EMPTY;
byte block_of[SLOTS] = NOBODY, block_time[SLOTS];
byte entries_added;
/* Published and not read yet, copied by the consumer, written, and when the clock was read for it. */
mtype = { NOT_YET, IN_RING, COPIED, READ };
mtype record[LIVES * RECORDS] = NOT_YET;
byte record_time[LIVES * RECORDS];

byte now = 1;
byte process_time; /* of the process's newest entry */
bool lives[LIVES], has_lived[LIVES], refused[LIVES];
byte forked_from[LIVES] = NOBODY;

/* The trace. */
bool in_trace[LIVES];
byte trace_time[LIVES], stream_time;

#define HAS_ENTRY(life)                                                                              \
    ((slot[0] == PUBLISHED && block_of[0] == (life)) ||                                              \
     (slot[SLOTS - 1] == PUBLISHED && block_of[SLOTS - 1] == (life)))

#define STEP(condition, work)                                             \
    do                                                                    \
    :: atomic { (condition) -> work; break }                              \
    :: goto killed                                                        \
    od

inline write_record() {
    atomic {
#ifdef DEFECT_CHILD_IS_INTRODUCED
        PROMISE(a_record_finds_its_entry_in_the_channel, HAS_ENTRY(me));
#else
        PROMISE(a_record_finds_its_entry_in_the_channel, refused[me] || HAS_ENTRY(me));
#endif
        record_time[me * RECORDS + written] = now;
        record[me * RECORDS + written] = IN_RING;
        written++
    }
}

proctype thread(byte me) {
    byte index, time, written;
    bool is_introduced;
#if defined(FORKS)
    if
    :: me == 0
    :: me != 0 && has_lived[0] -> goto over
    :: atomic { forked_from[me] != NOBODY ->
#ifdef DEFECT_CHILD_IS_INTRODUCED
           is_introduced = true
#else
           skip /* after_fork() */
#endif
       }
    fi;
#elif defined(COMES_ROUND) || defined(ONE_AFTER_THE_OTHER)
    if
    :: me == 0
    :: me != 0 -> has_lived[me - 1]
    fi;
#endif
    lives[me] = true;

#ifdef DEFECT_RECORD_BEFORE_ENTRY
    STEP(true, skip);
    write_record();
#endif
introduce_thread:
    if
    :: is_introduced -> goto emit
    :: else
    fi;
#ifndef DEFECT_TIME_READ_BEHIND_PUBLISHING
    STEP(true, now++; time = now); /* add_entry() */
#endif
claim_slot_for:
    STEP(true,
        if
        :: index == SLOTS -> refused[me] = true; index = 0; goto emit
        :: index < SLOTS && (slot[index] == EMPTY || slot[index] == FREED)
        :: else -> index++; goto claim_slot_for
        fi);
    STEP(true,
        if
#ifdef DEFECT_CLAIMED_WITHOUT_COMPARING
        :: true -> slot[index] = CLAIMED
#else
        :: slot[index] == EMPTY || slot[index] == FREED -> slot[index] = CLAIMED
        :: else -> index++; goto claim_slot_for
#endif
        fi);
#ifdef DEFECT_PUBLISHED_BEFORE_WRITTEN
    STEP(true, slot[index] = PUBLISHED);
#endif
    STEP(true, block_of[index] = me);
    STEP(true, block_time[index] = time);
#ifdef DEFECT_COUNTED_BEFORE_PUBLISHING
    STEP(true, entries_added++);
#endif
#ifndef DEFECT_PUBLISHED_BEFORE_WRITTEN
    STEP(true, slot[index] = PUBLISHED);
#endif
#ifndef DEFECT_COUNTED_BEFORE_PUBLISHING
    STEP(true, entries_added++);
#endif

emit:
    is_introduced = true;
#ifdef DEFECT_TIME_READ_BEHIND_PUBLISHING
    do
    :: written < RECORDS -> STEP(true, skip); write_record()
    :: written == RECORDS -> break
    od;
    STEP(true,
        now++;
        if
        :: slot[index] == PUBLISHED && block_of[index] == me -> block_time[index] = now
        :: else
        fi);
#else
    do
    :: written < RECORDS -> STEP(true, skip); write_record()
#ifdef FORKS
    :: atomic { me == 0 && forked_from[1] == NOBODY && written < RECORDS -> forked_from[1] = 0 }
#endif
    :: written == RECORDS -> break
    od;
#endif

killed:
    atomic { lives[me] = false; index = 0; time = 0; written = 0; is_introduced = false }
over:
    has_lived[me] = true
}

#ifdef SECOND_RUNTIME
/* Another runtime in the process tells of the process once more. */
proctype second_runtime() {
    atomic { now++; process_time = now }
}
#endif

/* Whether a thread of that id lives now. */
inline look_for_thread(life) {
    found = false;
    u = 0;
    do
    :: u < LIVES ->
        if
        :: THREAD_ID(u) == THREAD_ID(life) && lives[u] -> found = true
        :: else
        fi;
        u++
    :: else -> break
    od;
    u = 0
}

inline has_unread_record(life) {
    found = false;
    u = 0;
    do
    :: u < RECORDS -> found = found || (record[(life) * RECORDS + u] == IN_RING || record[(life) * RECORDS + u] == COPIED); u++
    :: else -> break
    od;
    u = 0
}

#ifdef DEFECT_TAKEN_FOR_EVER
#define TAKEN_WHEN_FREED true
#else
#define TAKEN_WHEN_FREED false
#endif
inline free_entry() {
    has_unread_record(copy_of[index]);
    PROMISE(a_record_finds_its_entry_in_the_channel, !found);
    found = false;
    PROMISE(a_living_thread_keeps_its_entry, !lives[copy_of[index]]);
    slot[index] = FREED; is_dispensable[index] = false; is_kept[index] = false; is_taken[index] = TAKEN_WHEN_FREED;
    copy_of[index] = NOBODY; copy_time[index] = 0
}

inline free_dispensable() {
#ifndef DEFECT_NEVER_FREED
    do
    :: atomic { index < SLOTS && is_dispensable[index] -> free_entry(); index++ }
    :: atomic { index < SLOTS && !is_dispensable[index] -> index++ }
    :: atomic { index == SLOTS -> index = 0; break }
    od
#else
    skip
#endif
}

inline find_dispensable() {
    do
    :: atomic {
           index < SLOTS ->
           if
           :: is_kept[index] ->
#ifdef DEFECT_FREED_WHEN_OLD
               is_dispensable[index] = true;
#else
               look_for_thread(copy_of[index]);
               is_dispensable[index] = !found;
               found = false;
#endif
#ifdef DEFECT_SUPERSEDED_BY_PROCESS
               is_dispensable[index] = is_dispensable[index] || copy_time[index] < process_time
#else
               /* A younger one for the same thread id, which lives: then this one is of an earlier life. */
               u = 0;
               do
               :: u < SLOTS ->
                   is_dispensable[index] = is_dispensable[index] || (u != index && is_kept[u] &&
                           THREAD_ID(copy_of[u]) == THREAD_ID(copy_of[index]) && copy_time[u] > copy_time[index]);
                   u++
               :: else -> break
               od;
               u = 0
#endif
           :: else
           fi;
           index++
       }
    :: atomic { index == SLOTS -> index = 0; break }
    od
}

inline copy_rings() {
    d_step {
        u = 0;
        do
        :: u < LIVES * RECORDS ->
            if
            :: record[u] == IN_RING -> record[u] = COPIED
            :: else
            fi;
            u++
        :: else -> break
        od;
        u = 0
    }
}

inline write_records() {
    d_step {
        u = 0;
        do
        :: u < LIVES * RECORDS ->
            if
            :: record[u] == COPIED ->
                record[u] = READ;
                PROMISE(a_record_finds_its_entry_in_the_trace, refused[u / RECORDS] ||
                        (in_trace[u / RECORDS] && trace_time[u / RECORDS] <= record_time[u]))
            :: else
            fi;
            u++
        :: else -> break
        od;
        u = 0
    }
}

/* What is younger than `until` is written by the next one. */
inline write_new_entries() {
#ifndef DEFECT_COUNT_SEEN_BEHIND_THE_LOOK
    seen = entries_added;
#endif
    atomic { now++; next_until = now }
#ifndef DEFECT_HELD_FOR_A_TURN
    until = next_until;
#endif
    do /* take_new_entries() */
    :: atomic {
           index < SLOTS && slot[index] == PUBLISHED && !is_taken[index] ->
           is_taken[index] = true; is_held[index] = true;
           PROMISE(an_entry_is_whole, block_of[index] != NOBODY);
           copy_of[index] = block_of[index]; copy_time[index] = block_time[index]
       }
       atomic {
           PROMISE(an_entry_is_whole, block_of[index] == copy_of[index] && copy_time[index] != 0);
           index++
       }
    :: atomic { index < SLOTS && (slot[index] != PUBLISHED || is_taken[index]) -> index++ }
    :: atomic { index == SLOTS -> index = 0; break }
    od;
#ifdef DEFECT_COUNT_SEEN_BEHIND_THE_LOOK
    seen = entries_added;
#endif
    atomic { /* write_statedump(): in the order of time */
        newest = stream_time;
        do
        :: index < SLOTS ->
            if
#ifdef DEFECT_YOUNGER_THAN_THE_LOOK
            :: is_held[index] ->
#else
            :: is_held[index] && (last || copy_time[index] <= until) ->
#endif
                is_held[index] = false; is_kept[index] = true; in_trace[copy_of[index]] = true;
                trace_time[copy_of[index]] = (copy_time[index] > stream_time -> copy_time[index] : stream_time);
                newest = (trace_time[copy_of[index]] > newest -> trace_time[copy_of[index]] : newest)
            :: else
            fi;
            index++
        :: else -> break
        od;
        index = 0; stream_time = newest; newest = 0; until = next_until; next_until = 0
    }
}

proctype consumer() {
    byte turns, index, until, next_until, seen, newest;
    byte copy_of[SLOTS] = NOBODY, copy_time[SLOTS];
    bool is_taken[SLOTS], is_held[SLOTS], is_kept[SLOTS], is_dispensable[SLOTS];
    bool found, last;
turn:
#ifdef DEFECT_FREED_BEFORE_READING
    if
    :: !last -> find_dispensable(); free_dispensable()
    :: else
    fi;
#endif
    copy_rings();
    if
    :: true -> write_new_entries() /* introduce_writers(), and each timed turn */
    :: !last && seen == entries_added
    fi;
    write_records();
#ifndef DEFECT_FREED_BEFORE_READING
    if
    :: !last -> /* EntryRecycler::pass() */
#ifndef DEFECT_FREED_IN_THE_SAME_PASS
        free_dispensable();
#endif
        find_dispensable();
#ifdef DEFECT_FREED_IN_THE_SAME_PASS
        free_dispensable();
#endif
    :: else
    fi;
#endif
    atomic {
        if
        :: turns < TURNS -> turns++; goto turn
        :: turns == TURNS && !last -> timeout -> last = true; goto turn /* finish() */
        :: else
        fi
    }
    find_dispensable();
    free_dispensable();
    PROMISE(slots_come_round, slot[0] != PUBLISHED && slot[SLOTS - 1] != PUBLISHED);
    atomic {
        do
        :: index < LIVES * RECORDS ->
            PROMISE(a_record_finds_its_entry_in_the_trace, record[index] != READ || refused[index / RECORDS] ||
                    (in_trace[index / RECORDS] && trace_time[index / RECORDS] <= record_time[index]));
            u = 0;
            do
            :: u < LIVES ->
                PROMISE(a_record_finds_its_entry_in_the_trace, record[index] != READ || refused[index / RECORDS] ||
                        u == index / RECORDS || THREAD_ID(u) != THREAD_ID(index / RECORDS) || !in_trace[u] ||
                        trace_time[u] < trace_time[index / RECORDS] || trace_time[u] > record_time[index]);
                u++
            :: else -> break
            od;
            u = 0;
            index++
        :: else -> break
        od;
        index = 0
    }
}

init {
    atomic {
        do
        :: u < LIVES -> run thread(u); u++
        :: else -> break
        od;
        u = 0;
#ifdef SECOND_RUNTIME
        run second_runtime();
#endif
        run consumer()
    }
}

#else
/* One thread, and sessions that are attached meanwhile: which channels know it already. */
bool usable[CHANNELS], knows[CHANNELS];
byte epoch_of[CHANNELS];
byte epoch;

proctype attacher() {
    byte c;
    do
    :: c < CHANNELS ->
        epoch_of[c] = epoch + 1; /* attach() */
        usable[c] = true;
        epoch = epoch_of[c];
        c++
    :: else -> break
    od
}

proctype thread() {
    byte introduced, newest, c, place, records;
    do
    :: records == 3 -> break
    :: records < 3 -> /* a record for any session that is usable */
        records++;
        if
        :: usable[0] -> c = 0
        :: usable[CHANNELS - 1] -> c = CHANNELS - 1
        :: !usable[0] -> goto next
        fi;
        if
        :: introduced < epoch_of[c] -> /* introduce_thread() */
#ifndef DEFECT_EPOCH_READ_BEHIND_ATTACHMENTS
            newest = epoch;
#endif
            place = 0;
            do
            :: atomic { place < CHANNELS && usable[place] && epoch_of[place] > introduced -> knows[place] = true; place++ }
            :: atomic { place < CHANNELS && !(usable[place] && epoch_of[place] > introduced) -> place++ }
            :: place == CHANNELS -> break
            od;
#ifdef DEFECT_EPOCH_READ_BEHIND_ATTACHMENTS
            newest = epoch;
#endif
            introduced = newest
        :: else
        fi;
        PROMISE(a_record_finds_its_entry_in_the_channel, knows[c]);
next:
        skip
    od
}

init {
    atomic { run attacher(); run thread() }
}
#endif
