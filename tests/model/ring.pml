/*
 * The rings of CPUs: libtrace/ring/ and <plumb/detail/writer.h> on one side, consumerd/drain and
 * consumerd/channel/ring_reader.cc on the other. Rings that are taken by an owner word are in owner.pml.
 *
 * What must hold
 *   each_record_is_read_once          what was published is read once and whole; the rest is counted as lost
 *   a_ring_is_in_time_order           a record's clock is read after the record before it was published
 *   positions_are_sound               a reader that checks them finds no damage where there is none
 *   nobody_sleeps_while_there_is_work no wait ends by its time-out while the other side is there
 *   nobody_waits_again_for_the_dead   a thread's wait for a consumer that is gone is its last one
 *   closed_rings_stay_closed          when close_rings() and all writers are done, no ring has room
 *   no_wait_without_end               everybody comes to an end
 *
 * How it is modelled
 *   A thread is preempted when another one on its CPU takes a step: that restarts a sequence which it is in, and so
 *   does a signal or a migration, each at every step. A handler that traces is, for the ring, another thread on that
 *   CPU. Each CPU has a store buffer, as x86 has: plain stores become visible later, in their order; an atomic
 *   read-modify-write and a migration wait until it is empty. The consumer's stores need none: each is followed at
 *   once by an atomic addition.
 *   A sub-buffer has room for two units, a ring for two sub-buffers; records are one or two units long.
 *   Time does not pass: a time-out happens when nothing else can (`timeout`), which is what makes a lost wake-up
 *   visible, or, with EARLY_TIMEOUT, also at any moment.
 *
 * What is left out: memory order weaker than x86's; positions that wrap; sizes; damaged memory; who is attached and
 * which events are on (enabling.pml); idle_wake_pause_ns, which only delays. That count_full_in_sequence() counts a lost event
 * without a plan: it does what `full` does, in one step, where nothing can have changed in between.
 *
 *   * check  one_cpu -DTHREADS=2 -DCPUS=1 -DRECORDS=2 -DRECORDS_OF_LAST=1
 *   * check  time_order -DTHREADS=2 -DCPUS=1 -DRECORDS=1 -DFINE
 *   * check  sequences -DTHREADS=2 -DCPUS=2 -DRECORDS=1 -DUNITS=2 -DMIGRATION
 *   * check  wakes -DTHREADS=2 -DCPUS=2 -DRECORDS=2 -DUNITS=2 -DTSO
 *   * check  blocked -DTHREADS=2 -DCPUS=1 -DRECORDS=2 -DUNITS=2 -DMODE_BLOCK
 *   * check  slow_consumer -DTHREADS=2 -DCPUS=1 -DRECORDS=2 -DRECORDS_OF_LAST=1 -DUNITS=2 -DMODE_BLOCK -DEARLY_TIMEOUT
 *   * check  consumer_dies -DTHREADS=2 -DCPUS=1 -DRECORDS=2 -DRECORDS_OF_LAST=1 -DUNITS=2 -DMODE_BLOCK -DCONSUMER_DIES
 *   * check  consumer_dies_early -DTHREADS=2 -DCPUS=1 -DRECORDS=4 -DRECORDS_OF_LAST=0 -DUNITS=2 -DMODE_BLOCK -DCONSUMER_DIES
 *   * check  writer_dies -DTHREADS=2 -DCPUS=1 -DRECORDS=2 -DRECORDS_OF_LAST=1 -DUNITS=2 -DMODE_BLOCK -DWRITER_DIES
 *   * check  closing -DTHREADS=2 -DCPUS=1 -DRECORDS=1 -DUNITS=2 -DCLOSING -DTSO
 *   * check  closing_wakes -DTHREADS=2 -DCPUS=1 -DRECORDS=2 -DRECORDS_OF_LAST=1 -DUNITS=2 -DMODE_BLOCK -DCLOSING
 *   * check  closing_migrates -DTHREADS=2 -DCPUS=2 -DRECORDS=1 -DRECORDS_OF_LAST=0 -DMIGRATION -DCLOSING
 *   * check  overwrite -DTHREADS=1 -DCPUS=1 -DRECORDS=4 -DUNITS=2 -DMODE_OVERWRITE -DFINE -DTSO
 *   * defect SEEN_BEHIND_STEP in blocked breaks nobody_sleeps_while_there_is_work
 *   * defect SPACE_SEEN_BEHIND_PLAN in blocked breaks nobody_sleeps_while_there_is_work
 *   * defect SPACE_WAITERS_TAKEN_BEHIND in blocked breaks nobody_sleeps_while_there_is_work
 *   * defect SPACE_WAITERS_TAKEN_BEFORE in blocked breaks nobody_sleeps_while_there_is_work
 *   * defect WRITER_CLEARS_WAITERS in one_cpu breaks nobody_sleeps_while_there_is_work
 *   * defect WAKE_WITHOUT_ATOMIC in wakes breaks nobody_sleeps_while_there_is_work
 *   * defect WAIT_FOR_THE_DEAD in consumer_dies_early breaks nobody_waits_again_for_the_dead
 *   * defect CLOSED_NOT_SEEN_AGAIN in closing breaks closed_rings_stay_closed
 *   * defect CLOSED_WITHOUT_FENCE in closing breaks closed_rings_stay_closed
 *   * defect CLOCK_BEFORE_POSITION in time_order breaks a_ring_is_in_time_order
 *   * defect POSITION_NOT_COMPARED in one_cpu breaks each_record_is_read_once
 *   * defect LIMIT_BEHIND_BYTES in overwrite breaks each_record_is_read_once
 */
#ifndef RECORDS_OF_LAST
#define RECORDS_OF_LAST RECORDS
#endif
#define SUBBUF 2
#define RING   4
#define PADDING 1
#define NONE   255

hidden byte promise_each_record_is_read_once;
hidden byte promise_nothing_unread_is_overwritten;
hidden byte promise_a_ring_is_in_time_order;
hidden byte promise_positions_are_sound;
hidden byte promise_nobody_sleeps_while_there_is_work;
hidden byte promise_nobody_waits_again_for_the_dead;
hidden byte promise_closed_rings_stay_closed;
#define PROMISE(name, condition) assert((condition) || promise_##name != 0)

/* The channel, as memory has it. */
byte write_pos[CPUS];
byte limit[CPUS];
byte consumed[CPUS];
byte cells[CPUS * RING]; /* record * 2 for its first unit, + 1 for its second; PADDING */
byte data_futex, space_futex;
bool data_waiters;
#ifdef CLOSING
bool closed;
#endif
#ifdef MODE_BLOCK
bool space_waiters;
byte gave_up = NONE;
#endif

/* Threads. */
byte cpu[THREADS];
bool in_sequence[THREADS];
bool restarted[THREADS]; /* the kernel has moved the thread to its abort handler */
bool asleep_for_space[THREADS];
bool gave_up_on_the_dead[THREADS];
bool ended[THREADS];
bool asleep_for_data, consumer_gone;
bool wake_owed; /* a writer was killed between opening a sub-buffer and waking the consumer, whose interval ends it */

/* For the promises: what became of each record. */
mtype = { NOT_YET, PUBLISHED, READ_OR_LOST };
mtype fate[THREADS * RECORDS + 1] = NOT_YET;
bool two_units[THREADS * RECORDS + 1];
#ifdef FINE
bool clock_is_fresh[THREADS]; /* nothing was published in this ring since the thread read its clock */
byte clock_ring[THREADS];
#endif

byte u, v; /* only inside d_step, and 0 outside */

#ifdef TSO
/* The stores of a CPU that memory does not have yet, and what the CPU itself sees. */
#define STORE_BUFFER 4
mtype = { CELL, WRITE_POS, LIMIT };
chan store_buffer[CPUS] = [STORE_BUFFER] of { mtype, byte, byte };
byte own_write_pos[CPUS];
byte own_limit[CPUS];
byte limits_buffered[CPUS];
#define OWN_WRITE_POS own_write_pos[ring]
#define OWN_LIMIT (limits_buffered[ring] > 0 -> own_limit[ring] : limit[ring])
#define IS_EMPTY empty(store_buffer[cpu[me]])
#define HAS_ROOM (len(store_buffer[cpu[me]]) < STORE_BUFFER - 2)

inline store_cell(position_, value_) {
    store_buffer[ring]!CELL((position_) % RING, value_)
}
inline store_write_pos(value_) {
    store_buffer[ring]!WRITE_POS(0, value_);
    own_write_pos[ring] = value_
}
inline store_limit(value_) {
    store_buffer[ring]!LIMIT(0, value_);
    own_limit[ring] = value_;
    limits_buffered[ring]++
}

proctype cpu_stores(byte c) {
    byte index, value;
end:
    do
    :: atomic { store_buffer[c]?CELL(index, value) -> cells[c * RING + index] = value; index = 0; value = 0 }
    :: atomic { store_buffer[c]?WRITE_POS(index, value) -> write_pos[c] = value; index = 0; value = 0 }
    :: atomic { store_buffer[c]?LIMIT(index, value) -> limit[c] = value; limits_buffered[c]--; index = 0; value = 0 }
    od
}
#else
#define OWN_WRITE_POS write_pos[ring]
#define OWN_LIMIT limit[ring]
#define IS_EMPTY true
#define HAS_ROOM true
inline store_cell(position_, value_) {
    cells[ring * RING + (position_) % RING] = value_
}
inline store_write_pos(value_) {
    write_pos[ring] = value_
}
inline store_limit(value_) {
    limit[ring] = value_
}
#endif

/* This thread runs: whoever else was in a sequence on this CPU was preempted. */
inline runs() {
    d_step {
        u = 0;
        do
        :: u < THREADS ->
            if
            :: u != me && cpu[u] == cpu[me] && in_sequence[u] -> restarted[u] = true
            :: else
            fi;
            u++
        :: else -> break
        od;
        u = 0
    }
}

inline read_clock() {
#ifdef FINE
    clock_is_fresh[me] = true;
    clock_ring[me] = ring
#else
    skip
#endif
}

inline published() {
#ifdef FINE
    d_step {
        u = 0;
        do
        :: u < THREADS ->
            if
            :: u != me && clock_ring[u] == ring -> clock_is_fresh[u] = false
            :: else
            fi;
            u++
        :: else -> break
        od;
        u = 0
    }
#else
    skip
#endif
}

#ifdef MIGRATION
#define MAY_MIGRATE                                              \
    :: atomic {                                                  \
           IS_EMPTY -> cpu[me] = 1 - cpu[me];                    \
           if                                                    \
           :: in_sequence[me] -> restarted[me] = true            \
           :: else                                               \
           fi                                                    \
       }
#else
#define MAY_MIGRATE
#endif
#ifdef WRITER_DIES
#define MAY_DIE :: atomic { me == 0 -> goto killed }
#define OWES_WAKE(value) owes_wake = value
#else
#define MAY_DIE
#define OWES_WAKE(value) skip
#endif

/* A step of a thread outside of sequences. */
#define STEP(condition, work) do :: atomic { (condition) -> runs(); work; break } MAY_MIGRATE MAY_DIE od
/* A step inside; where it is restarted, or gets a signal, it goes on at `again` with nothing done. */
#define SEQUENCE_STEP(condition, work, again)                                                             \
    do                                                                                                    \
    :: atomic { !restarted[me] && (condition) -> runs(); work; break }                                    \
    :: atomic { in_sequence[me] = false; restarted[me] = false; goto again }                              \
    MAY_MIGRATE MAY_DIE                                                                                   \
    od

#define ID (me * RECORDS + written)
#define UNITS_OF(id) (1 + two_units[id])
#define BOUNDARY (at - at % SUBBUF + SUBBUF)
/* The arithmetic is modular: a limit behind the position is no room. */
#define FITS (OWN_LIMIT >= at && OWN_LIMIT - at <= SUBBUF && UNITS_OF(ID) <= OWN_LIMIT - at)
/* What publish_in_sequence() and open_in_sequence() compare. */
#ifdef DEFECT_POSITION_NOT_COMPARED
#define MOVED (cpu[me] != ring)
#else
#define MOVED (cpu[me] != ring || OWN_WRITE_POS != at)
#endif
#ifdef MODE_OVERWRITE
#define OVERWRITES true
#else
#define OVERWRITES false
#endif

#ifndef MODE_BLOCK
#define MAY_WAIT false
#elif defined(DEFECT_WAIT_FOR_THE_DEAD)
#define MAY_WAIT true
#else
#define MAY_WAIT (gave_up != seen || space_futex != seen)
#endif
/* Only if nothing was handed back in all the time. */
inline give_up() {
    if
    :: first == seen ->
        gave_up = seen;
        PROMISE(nobody_waits_again_for_the_dead, !gave_up_on_the_dead[me]);
        gave_up_on_the_dead[me] = consumer_gone
    :: else
    fi
}

#define LOOK_AT_CONSUMED if :: BOUNDARY - consumed[ring] <= RING -> goto open :: else fi

inline may_wait() {
#ifdef MODE_BLOCK
    if
    :: first == NONE -> first = seen
    :: else
    fi;
    if
    :: out_of_time && (space_futex == seen || is_last_look) -> give_up(); is_lost(); goto next_record
    :: out_of_time && space_futex != seen && !is_last_look -> is_last_look = true
    :: !out_of_time -> space_waiters = true
    fi;
#endif
    at = 0
}

inline is_lost() {
    fate[ID] = READ_OR_LOST; at = 0; ring = 0
}

inline store_record() {
    PROMISE(nothing_unread_is_overwritten, OVERWRITES || at + UNITS_OF(ID) <= consumed[ring] + RING);
    store_cell(at, ID * 2);
    if
    :: two_units[ID] -> store_cell(at + 1, ID * 2 + 1)
    :: else
    fi
}

inline commit_record() {
    store_write_pos(at + UNITS_OF(ID));
    in_sequence[me] = false;
#ifdef FINE
    PROMISE(a_ring_is_in_time_order, clock_is_fresh[me]);
#endif
    published();
    fate[ID] = PUBLISHED; at = 0; ring = 0
}

#ifdef FINE
#define PUBLISH(again)                                                            \
    SEQUENCE_STEP(HAS_ROOM, store_record(), again);                               \
    SEQUENCE_STEP(HAS_ROOM, commit_record(); goto next_record, again)
#else
#define PUBLISH(again) SEQUENCE_STEP(HAS_ROOM, store_record(); commit_record(); goto next_record, again)
#endif

inline wake_space() {
    d_step {
        u = 0;
        do
        :: u < THREADS -> asleep_for_space[u] = false; u++
        :: else -> break
        od;
        u = 0
    }
}

proctype writer(byte me) {
    byte written, ring, at, seen;
    byte first = NONE; /* what space_futex was when the record's first wait began */
    bool out_of_time;
    bool is_last_look; /* one more try, since something was handed back behind the look for room */
#ifdef WRITER_DIES
    bool owes_wake;
#endif

next_record:
    atomic {
        seen = 0; first = NONE; out_of_time = false; is_last_look = false;
        if
        :: written == (me == 0 -> RECORDS : RECORDS_OF_LAST) -> goto over
        :: else -> written++
        fi;
#if UNITS == 2
        two_units[ID] = true
#else
        if
        :: true
        :: two_units[ID] = true
        fi
#endif
    }

plumb_write_fast:
    STEP(true,
        ring = cpu[me]; at = OWN_WRITE_POS;
        if
        :: at + UNITS_OF(ID) > OWN_LIMIT -> at = 0; ring = 0; goto attempt_write
        :: else
        fi;
        in_sequence[me] = true; read_clock());
    PUBLISH(plumb_write_fast);

attempt_write:
#ifdef CLOSING
    STEP(true,
        if
        :: closed -> is_lost(); goto next_record
        :: else
        fi);
#endif
#ifdef MODE_BLOCK
#ifndef DEFECT_SPACE_SEEN_BEHIND_PLAN
    STEP(true, seen = space_futex); /* SpaceWait::look() */
#endif
#endif
write_per_cpu:
#ifdef DEFECT_CLOCK_BEFORE_POSITION
    STEP(true, read_clock());
#endif
    STEP(true,
        ring = cpu[me]; at = OWN_WRITE_POS; /* plan_write() */
        if
        :: FITS -> goto publish
        :: else ->
            if
            :: at % SUBBUF != 0 && at + UNITS_OF(ID) > BOUNDARY -> goto pad
            :: at % SUBBUF != 0 && at + UNITS_OF(ID) <= BOUNDARY -> goto open
            :: else
            fi
        fi;
#ifdef MODE_OVERWRITE
        goto open);
#elif !defined(CLOSING)
        LOOK_AT_CONSUMED);
#else
        skip);
    STEP(true, LOOK_AT_CONSUMED);
#endif
#ifndef MODE_OVERWRITE
    STEP(true, /* full: refuse() */
        if
        :: cpu[me] != ring -> goto write_per_cpu
        :: cpu[me] == ring && MAY_WAIT -> may_wait() /* SpaceWait::may_wait() */
        :: else -> is_lost(); goto next_record
        fi);
#ifdef MODE_BLOCK
#ifdef DEFECT_SPACE_SEEN_BEHIND_PLAN
    STEP(true, seen = space_futex);
#endif
    STEP(IS_EMPTY, asleep_for_space[me] = (space_futex == seen)); /* SpaceWait::wait() */
    do
    :: atomic { !asleep_for_space[me] -> break }
    :: atomic {
           timeout ->
           PROMISE(nobody_sleeps_while_there_is_work, consumer_gone || wake_owed);
           asleep_for_space[me] = false; out_of_time = true; break
       }
#ifdef EARLY_TIMEOUT
    :: atomic { asleep_for_space[me] -> asleep_for_space[me] = false; out_of_time = true; break }
#endif
    MAY_DIE
    od;
    goto attempt_write;
#endif
#endif

publish: /* publication_of(), publish_in_sequence() */
#if defined(FINE) && !defined(DEFECT_CLOCK_BEFORE_POSITION)
    STEP(true, read_clock());
#endif
    STEP(true,
        if
        :: MOVED -> goto write_per_cpu
        :: else
        fi;
        in_sequence[me] = true);
    PUBLISH(write_per_cpu);

pad: /* padding(), publish_in_sequence() */
    STEP(true,
        if
        :: MOVED -> goto write_per_cpu
        :: else
        fi;
        in_sequence[me] = true);
    SEQUENCE_STEP(HAS_ROOM,
        store_cell(at, PADDING); store_write_pos(BOUNDARY); in_sequence[me] = false; published(), write_per_cpu);
    goto write_per_cpu;

open: /* open_in_sequence() */
    STEP(true,
        if
        :: MOVED -> goto write_per_cpu
        :: else
        fi;
        in_sequence[me] = true);
#ifdef CLOSING
    SEQUENCE_STEP(true,
        if
        :: closed -> in_sequence[me] = false; is_lost(); goto next_record
        :: else
        fi, write_per_cpu);
#endif
    SEQUENCE_STEP(HAS_ROOM, store_limit(BOUNDARY); at = 0; in_sequence[me] = false; OWES_WAKE(true), write_per_cpu);
#if defined(DEFECT_WAKE_WITHOUT_ATOMIC) || defined(DEFECT_CLOSED_WITHOUT_FENCE)
#define ATOMIC true
#else
#define ATOMIC IS_EMPTY
#endif
    STEP(ATOMIC, data_futex++); /* is_closed_after_opening(): wake_consumer() */
    STEP(true,
        if
        :: !data_waiters -> OWES_WAKE(false); goto woken
        :: else
        fi);
#ifdef DEFECT_WRITER_CLEARS_WAITERS
    STEP(ATOMIC, data_waiters = false);
#endif
    STEP(true, asleep_for_data = false; OWES_WAKE(false));
woken:
#if defined(CLOSING) && !defined(DEFECT_CLOSED_NOT_SEEN_AGAIN)
    STEP(true,
        if
        :: !closed -> goto write_per_cpu
        :: else
        fi);
    STEP(IS_EMPTY, limit[ring] = 0; is_lost(); goto next_record);
#else
    goto write_per_cpu;
#endif

#ifdef WRITER_DIES
killed:
    atomic { wake_owed = owes_wake; asleep_for_space[me] = false; owes_wake = false }
#endif
over:
    atomic {
        ended[me] = true; in_sequence[me] = false; restarted[me] = false;
        ring = 0; at = 0; seen = 0; first = NONE; out_of_time = false; is_last_look = false; written = 0
    }
}

/* Where the window of what can still be read begins. */
#define WINDOW_BEGIN (last_limit[ring] > RING -> last_limit[ring] - RING : 0)

/* RingReader::look_at_limit(); what it would call damage breaks a promise. A record that was
 * overwritten stays PUBLISHED, since nobody will read it. */
inline look_at_limit() {
    if
    :: limit_there == 0 ->
        limit_there = readable_end - readable_end % SUBBUF + SUBBUF;
        if
        :: limit_there < last_limit[ring] -> limit_there = last_limit[ring]
        :: else
        fi
    :: else
    fi;
    d_step {
        u = write_pos[ring];
        PROMISE(positions_are_sound, limit_there >= last_limit[ring] && limit_there <= u + 2 * SUBBUF);
        u = 0
    }
    last_limit[ring] = limit_there;
    if
    :: WINDOW_BEGIN > position[ring] -> position[ring] = WINDOW_BEGIN
    :: else
    fi;
    limit_there = 0
}

/* The consumer sleeps, and nothing moves: it has read all that lies before the sub-buffers that were last opened. */
inline what_was_left_is_read() {
    d_step {
        u = 0;
        do
        :: u < CPUS ->
            PROMISE(nobody_sleeps_while_there_is_work,
                    limit[u] == 0 || position[u] >= limit[u] - SUBBUF || wake_owed);
            u++
        :: else -> break
        od;
        u = 0
    }
}

/* Drain::run(); ChannelSource::wait() waits only if nothing was found. */
#ifdef DEFECT_SEEN_BEHIND_STEP
#define FOUND false
#else
#define FOUND true
#endif
#ifdef CONSUMER_DIES
#define CONSUMER_STEP(work) do :: atomic { work; break } :: atomic { goto killed } od
#else
#define CONSUMER_STEP(work) atomic { work }
#endif

inline all_ended(result) {
    d_step {
        result = true; u = 0;
        do
        :: u < THREADS ->
            if
            :: !ended[u] -> result = false
            :: else
            fi;
            u++
        :: else -> break
        od;
        u = 0
    }
}

/* RingReader::read_chunk(): copies the first unit. Where nothing is overwritten, the copy may be one step: that writers
 * leave alone what was not handed back is a promise of its own. */
inline begin_chunk() {
    if
    :: !everything -> readable_end = readable_end - readable_end % SUBBUF
    :: else
    fi;
    if
    :: position[ring] >= readable_end -> goto hand_back
    :: else
    fi;
    chunk_end = position[ring] - position[ring] % SUBBUF + SUBBUF;
    if
    :: chunk_end > readable_end -> chunk_end = readable_end
    :: else
    fi;
    copy[position[ring] % SUBBUF] = cells[ring * RING + position[ring] % RING]
}

/* RingReader::walk_chunk() */
inline walk_chunk() {
    d_step {
        do
        :: position[ring] < chunk_end ->
            v = copy[position[ring] % SUBBUF];
            if
            :: v == PADDING -> position[ring] = position[ring] - position[ring] % SUBBUF + SUBBUF
            :: else ->
                PROMISE(each_record_is_read_once, v > PADDING && v % 2 == 0 && fate[v / 2] == PUBLISHED);
                PROMISE(each_record_is_read_once,
                        !two_units[v / 2] ||
                            (position[ring] % SUBBUF == 0 && chunk_end % SUBBUF == 0 && copy[1] == v + 1));
                fate[v / 2] = READ_OR_LOST; found = FOUND;
                position[ring] = position[ring] + 1 + two_units[v / 2]
            fi
        :: else -> break
        od;
        v = 0; copy[0] = 0; copy[1] = 0
    }
}

proctype consumer() {
    byte seen, ring, readable_end, chunk_end, limit_there, newer;
    byte position[CPUS], released[CPUS], last_limit[CPUS], copy[SUBBUF];
    bool everything, finishing, all, had_waiters, found;

turn:
    CONSUMER_STEP(seen = data_futex);
#ifdef DEFECT_SEEN_BEHIND_STEP
    goto wait;
#endif
step: /* drain_ring() of each */
#ifdef MODE_OVERWRITE
    CONSUMER_STEP(readable_end = write_pos[ring]); /* look_at_positions() */
    CONSUMER_STEP(limit_there = limit[ring]); /* look_at_limit() */
    CONSUMER_STEP(look_at_limit());
read_chunk:
    CONSUMER_STEP(begin_chunk());
    CONSUMER_STEP(
        if
        :: position[ring] + 1 < chunk_end -> copy[1] = cells[ring * RING + (position[ring] + 1) % RING]
        :: else
        fi);
#ifndef DEFECT_LIMIT_BEHIND_BYTES
    CONSUMER_STEP(limit_there = limit[ring]);
    CONSUMER_STEP(newer = position[ring]; look_at_limit();
        if
        :: newer != position[ring] -> newer = 0; goto read_chunk /* overwritten meanwhile */
        :: else -> newer = 0
        fi);
#endif
    CONSUMER_STEP(walk_chunk(); goto read_chunk);
#else
    CONSUMER_STEP(
        readable_end = write_pos[ring];
read_chunk:
        begin_chunk();
        if
        :: position[ring] + 1 < chunk_end -> copy[1] = cells[ring * RING + (position[ring] + 1) % RING]
        :: else
        fi;
        walk_chunk(); goto read_chunk);
#endif

hand_back:
    CONSUMER_STEP(
        chunk_end = 0; readable_end = 0;
        if
        :: position[ring] - position[ring] % SUBBUF <= released[ring] -> goto next_ring
        :: else
        fi;
        released[ring] = position[ring] - position[ring] % SUBBUF;
        consumed[ring] = released[ring]);
#ifdef MODE_BLOCK
#ifndef DEFECT_SPACE_WAITERS_TAKEN_BEHIND
    CONSUMER_STEP(had_waiters = space_waiters; space_waiters = false);
#endif
    CONSUMER_STEP(space_futex++);
#ifdef DEFECT_SPACE_WAITERS_TAKEN_BEHIND
    CONSUMER_STEP(had_waiters = space_waiters; space_waiters = false);
#elif !defined(DEFECT_SPACE_WAITERS_TAKEN_BEFORE)
    CONSUMER_STEP(had_waiters = had_waiters || space_waiters);
#endif
    CONSUMER_STEP(
        if
        :: had_waiters -> wake_space()
        :: else
        fi;
        had_waiters = false);
#endif
next_ring:
    CONSUMER_STEP(
        ring++;
        if
        :: ring < CPUS -> goto step
        :: else
        fi;
        ring = 0; everything = false;
        if
        :: finishing -> goto finished
        :: else
        fi);
#ifdef DEFECT_SEEN_BEHIND_STEP
    goto turn;
#endif
    if
    :: found -> found = false; goto turn
    :: else
    fi;
wait:
    CONSUMER_STEP(data_waiters = true);
    CONSUMER_STEP(asleep_for_data = (data_futex == seen); seen = 0);
    do
    :: atomic { !asleep_for_data -> data_waiters = false; goto turn }
    :: atomic {
           timeout -> /* the interval */
           all_ended(all);
           PROMISE(nobody_sleeps_while_there_is_work, all || wake_owed);
           what_was_left_is_read();
           asleep_for_data = false; data_waiters = false; everything = true; finishing = all; all = false;
           goto step
       }
    od;

finished:
    skip;
    d_step {
        u = 1;
        do
        :: u <= THREADS * RECORDS ->
            PROMISE(each_record_is_read_once, fate[u] != PUBLISHED || OVERWRITES);
            u++
        :: else -> break
        od;
        u = 0;
#ifdef CLOSING
        do
        :: u < CPUS -> PROMISE(closed_rings_stay_closed, limit[u] == 0); u++
        :: else -> break
        od;
        u = 0
#endif
    }
killed:
    atomic {
        consumer_gone = true; asleep_for_data = false;
        seen = 0; ring = 0; readable_end = 0; chunk_end = 0
    }
}

#ifdef CLOSING
/* close_rings() */
proctype closer() {
    byte ring;
    closed = true;
    do
    :: ring < CPUS -> limit[ring] = 0; ring++
    :: else -> break
    od;
    space_futex++;
    wake_space()
}
#endif

init {
    atomic {
        do
        :: u < THREADS -> cpu[u] = u % CPUS; run writer(u); u++
        :: else -> break
        od;
        u = 0;
        do
        :: u < CPUS ->
#ifdef TSO
            run cpu_stores(u);
#endif
            u++
        :: else -> break
        od;
        u = 0;
        run consumer();
#ifdef CLOSING
        run closer();
#endif
    }
}
