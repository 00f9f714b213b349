/*
 * The drain of a session that is kept, killed between any two steps, and its journal: consumerd/drain/drain_journal.h, drain.cc,
 * drain_chunks.cc and left_trace.cc, over one ring.
 *
 * What must hold
 *   each_record_is_in_the_trace_once   in the chunks together, once all are closed
 *   no_wait_without_end                everybody comes to an end
 *
 * How it is modelled
 *   A ring has room for two records, which the writer fills as it is handed back. A stream file is a row of records, of which the
 *   last may be half written; the journal says how many are whole. Each step of the drain may be its last; the next drain begins
 *   with what the journal says. A store of the journal that is more than one word takes two steps.
 *
 * What is left out: losses, other rings, metadata and statedump, failures to write.
 *
 *   * check  killed -DRECORDS=3 -DKILLS=2 -DCHUNKS=5
 *   * check  rotating -DRECORDS=3 -DKILLS=1 -DCHUNKS=6 -DROTATIONS=3
 *   * defect HANDED_BACK_BEFORE in killed breaks each_record_is_in_the_trace_once
 *   * defect SETTLED_BEFORE in killed breaks each_record_is_in_the_trace_once
 *   * defect SETTLED_IN_PLACE in killed breaks each_record_is_in_the_trace_once
 *   * defect NOT_CUT in killed breaks each_record_is_in_the_trace_once
 *   * defect CHUNK_NOT_NAMED in killed breaks each_record_is_in_the_trace_once
 *   * defect HELD_BACK_IS_SETTLED in rotating breaks each_record_is_in_the_trace_once
 */
#ifndef ROTATIONS
#define ROTATIONS 1
#endif
#define ROOM 2
#define ROW 4 /* of a file */

hidden byte promise_each_record_is_in_the_trace_once;
#define PROMISE(name, condition) assert((condition) || promise_##name != 0)

/* The channel. Records are numbered from 0. */
byte ring[ROOM], published, consumed;

/* The files: records, of which the last may be half written. */
byte file[CHUNKS * ROW], length[CHUNKS];

/* The journal: of the ring, two places and which of them holds; and which chunk is current. */
byte at[2], whole[2], of_chunk[2], which;
byte current;
byte kills, rotations;
bool is_over;

/* Each may be the last one. */
#define STEP(work)                                                        \
    do                                                                    \
    :: atomic { work; break }                                             \
    :: atomic { kills < KILLS -> kills++; goto killed }                   \
    od

active proctype writer() {
    byte i;
    do
    :: atomic { i < RECORDS && published - consumed < ROOM -> ring[i % ROOM] = i; published++; i++ }
    :: i == RECORDS -> break
    od
}

#ifdef DEFECT_SETTLED_IN_PLACE
#define NEXT which
#else
#define NEXT (1 - which)
#endif

inline settle() {
    STEP(at[NEXT] = position; of_chunk[NEXT] = current);
    STEP(whole[NEXT] = length[current]);
    STEP(which = NEXT);
}

inline write_record() {
    STEP(file[current * ROW + length[current]] = 255; length[current] = length[current] + 1); /* it has its room */
    STEP(file[current * ROW + length[current] - 1] = ring[position % ROOM]);
}

inline drain_record() {
#ifdef DEFECT_HANDED_BACK_BEFORE
    STEP(consumed = position + 1);
#endif
#ifdef DEFECT_SETTLED_BEFORE
    STEP(at[which] = position + 1; whole[which] = length[current] + 1; of_chunk[which] = current);
    write_record();
    position++;
#else
    write_record();
    position++;
    settle();
#endif
    STEP(consumed = position);
}

/* What was read before the cut is in the old chunk; what was held back comes first in the new one. */
inline rotate() {
    atomic { rotations++; has_held = false }
    if
    :: position < published ->
#ifdef DEFECT_HELD_BACK_IS_SETTLED
        position++;
        settle();
        position--;
#endif
        has_held = true
    :: true
    fi;
    STEP(current = current + 1);
    if
    :: has_held -> drain_record()
    :: else
    fi
}

inline take_over() {
    STEP(position = at[which]);
#ifndef DEFECT_NOT_CUT
    if
#ifdef DEFECT_CHUNK_NOT_NAMED
    :: whole[which] < length[current] -> STEP(length[current] = whole[which])
    :: else
#else
    :: of_chunk[which] == current -> STEP(length[current] = whole[which])
    :: else -> STEP(length[current] = 0)
#endif
    fi;
#endif
    STEP(consumed = (consumed < position -> position : consumed));
    STEP(current = current + 1)
}

active proctype drain() {
    byte position;
    bool has_held;
    do
    :: !is_over ->
        position = 0;
        if
        :: kills > 0 -> take_over()
        :: else
        fi;
        do
        :: position < published -> drain_record()
        :: rotations < ROTATIONS -> rotate()
        :: position == RECORDS -> is_over = true; break
        od;
        if
        :: false ->
killed:     atomic { position = 0; has_held = false }
        :: else
        fi
    :: else -> break
    od;
    byte record, chunk, place, found;
    skip;
    d_step {
        record = 0;
        do
        :: record < RECORDS ->
            found = 0;
            chunk = 0;
            do
            :: chunk <= current ->
                place = 0;
                do
                :: place < length[chunk] ->
                    found = found + (file[chunk * ROW + place] == record -> 1 : 0);
                    place++
                :: else -> break
                od;
                chunk++
            :: else -> break
            od;
            PROMISE(each_record_is_in_the_trace_once, found == 1);
            record++
        :: else -> break
        od
    }
}
