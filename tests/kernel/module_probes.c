/* Probes of the kernel's functions (<plumb/abi/kernel_probe.h>): wrong ones, each wrong in one word, and any. */
#define _GNU_SOURCE
#include "module_probes.h"

#include "module_calls.h"

#include <plumb/abi/kernel_events.h>
#include <plumb/abi/kernel_probe.h>

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char way[] = "probes";

static int probe(int events, const struct plumb_kernel_probe* request) {
    return ioctl(events, (unsigned long)PLUMB_IOCTL(PLUMB_KERNEL_PROBE, sizeof(*request)), request) == 0
               ? 0
               : errno;
}

static struct plumb_kernel_probe good_probe(void) {
    struct plumb_kernel_probe request;
    memset(&request, 0, sizeof(request));
    request.event_id = 7;
    strcpy(request.symbol, "vfs_read");
    request.fetch_count = 2;
    request.fetches[0] = (struct plumb_kernel_fetch){
        .source = PLUMB_FETCH_REGISTER, .type = PLUMB_FIELD_INTEGER, .size = 8, .number = PLUMB_REGISTER_DX};
    request.fetches[1] =
        (struct plumb_kernel_fetch){.source = PLUMB_FETCH_COMM, .type = PLUMB_FIELD_STRING, .size = 1};
    return request;
}

#define IN_PROBE(field, number, error) WRONG_WORD(struct plumb_kernel_probe, field, number, error)
#define IN_FETCH(index, field, number)                                     \
    {                                                                      \
        "fetch " #index " " #field " " #number,                            \
            offsetof(struct plumb_kernel_probe, fetches[index]) +          \
                offsetof(struct plumb_kernel_fetch, field),                \
            sizeof(((struct plumb_kernel_fetch*)0)->field), number, EINVAL \
    }

static const struct wrong all_wrong[] = {
    IN_PROBE(event_id, 0, EINVAL),
    IN_PROBE(event_id, 65536, EINVAL),
    IN_PROBE(flags, PLUMB_PROBE_LATE, EINVAL),
    IN_PROBE(flags, 8, EINVAL),
    IN_PROBE(reserved, 1, EINVAL),
    IN_PROBE(fetch_count, PLUMB_FETCH_MAX + 1, EINVAL),
    IN_PROBE(offset, 1, EILSEQ),           /* in the middle of an instruction */
    IN_PROBE(offset, 1ull << 32, EINVAL),  /* behind any function */
    IN_PROBE(offset, 1ull << 20, EILSEQ),  /* behind this one */
    IN_FETCH(0, source, PLUMB_FETCH_COMM), /* and an integer */
    IN_FETCH(0, source, PLUMB_FETCH_COMM + 1),
    IN_FETCH(0, type, PLUMB_FIELD_FLOAT),
    IN_FETCH(0, type, PLUMB_FIELD_STRING), /* of a register */
    IN_FETCH(0, size, 0),
    IN_FETCH(0, size, 3),
    IN_FETCH(0, size, 16),
    IN_FETCH(0, depth, PLUMB_FETCH_DEPTH_MAX + 1),
    IN_FETCH(0, number, PLUMB_REGISTER_COUNT),
    IN_FETCH(0, flags, PLUMB_FETCH_USER(PLUMB_FETCH_DEPTH_MAX)),
    IN_FETCH(1, size, 2),
    IN_FETCH(1, depth, 1),
};

static void check_wrong(int events) {
    for (size_t i = 0; i < sizeof(all_wrong) / sizeof(all_wrong[0]); i++) {
        const struct wrong* const wrong = &all_wrong[i];
        struct plumb_kernel_probe request = good_probe();
        memcpy((char*)&request + wrong->offset, &wrong->value, wrong->bytes);
        const int error = probe(events, &request);
        /* What is no place of an instruction has several names. */
        expect(error == wrong->error || (wrong->error == EILSEQ && (error == EINVAL || error == ENOENT)), way,
               wrong->what);
    }
}

void check_probes_without_channel(int events) {
    const struct plumb_kernel_probe request = good_probe();
    expect(probe(events, &request) == ENOTCONN, way, "without a channel");
}

static void check_calls(int events) {
    struct plumb_kernel_probe request = good_probe();
    request.flags = PLUMB_PROBE_CALL;
    request.offset = 100000;
    expect(probe(events, &request) == EINVAL, way, "a number that no call has");
    request.offset = 110;
    const struct plumb_kernel_fetch seventh = request.fetches[PLUMB_CALL_ARGUMENTS_MAX];
    request.fetch_count = PLUMB_CALL_ARGUMENTS_MAX + 1;
    for (unsigned i = 0; i < request.fetch_count; i++)
        request.fetches[i] = request.fetches[0];
    expect(probe(events, &request) == EINVAL, way, "seven arguments");
    request.fetch_count = PLUMB_CALL_ARGUMENTS_MAX;
    request.fetches[PLUMB_CALL_ARGUMENTS_MAX] = seventh;
    memset(request.names[5], 'x', sizeof(request.names[5]));
    expect(probe(events, &request) == EINVAL, way, "an argument's name without an end");
    request.names[5][0] = 0;
    request.fetches[PLUMB_FETCH_MAX - 1].size = 1;
    expect(probe(events, &request) == EINVAL, way, "something behind what is fetched");
    request.fetches[PLUMB_FETCH_MAX - 1].size = 0;
    request.flags = PLUMB_PROBE_CALL | PLUMB_PROBE_LATE;
    expect(probe(events, &request) == EINVAL, way, "late texts of an entry");
    for (unsigned flags = PLUMB_PROBE_CALL; flags < 8; flags++) {
        request.flags = flags;
        if (!(flags & PLUMB_PROBE_CALL) || flags == (PLUMB_PROBE_CALL | PLUMB_PROBE_LATE)) continue;
        expect(probe(events, &request) == 0, way, "a call");
        expect(probe(events, &request) == EBUSY, way, "a call twice");
    }
}

void check_probes(int events) {
    struct plumb_kernel_probe request = good_probe();
    uint64_t missed = 1;
    check_wrong(events);
    check_calls(events);
    expect(ioctl(events, (unsigned long)PLUMB_IOCTL(PLUMB_KERNEL_PROBE, sizeof(request)), NULL) == -1 &&
               errno == EFAULT,
           way, "no memory");
    memset(request.symbol, 'x', sizeof(request.symbol));
    expect(probe(events, &request) == EINVAL, way, "a name without an end");
    strcpy(request.symbol, "no_such_function");
    expect(probe(events, &request) == ENOENT, way, "a function that is not there");
    strcpy(request.symbol, "do_int3");
    expect(probe(events, &request) == EINVAL, way, "what may not be probed");
    request = good_probe();
    request.flags = PLUMB_PROBE_RETURN;
    request.offset = 4;
    expect(probe(events, &request) == EINVAL, way, "a return from the middle");
    request.offset = 0;
    expect(probe(events, &request) == 0, way, "a return");
    request.flags = 0;
    expect(probe(events, &request) == 0, way, "an entry");
    request.symbol[0] = 0;
    request.offset = 4096;
    expect(probe(events, &request) != 0, way, "an address that is no function's");
    expect(ioctl(events, (unsigned long)PLUMB_IOCTL(PLUMB_KERNEL_MISSED, sizeof(missed)), &missed) == 0 &&
               missed == 0,
           way, "none was missed");
    const pid_t child = fork();
    if (child == 0) {
        request = good_probe();
        _exit(setgid(1001) == 0 && setuid(1001) == 0 && probe(events, &request) == EPERM ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    expect(status == 0, way, "a user who was given the descriptor");
}

void random_probe(int events, uint64_t (*any)(void)) {
    static const char* const symbols[] = {"vfs_read",
                                          "vfs_write",
                                          "do_sys_openat2",
                                          "schedule",
                                          "try_to_wake_up",
                                          "hrtimer_interrupt",
                                          "kfree",
                                          "strnlen",
                                          "ktime_get_mono_fast_ns",
                                          "copy_from_kernel_nofault",
                                          "handle_mm_fault",
                                          "do_exit"};
    struct plumb_kernel_probe request = good_probe();
    strcpy(request.symbol, symbols[any() % (sizeof(symbols) / sizeof(symbols[0]))]);
    request.event_id = (uint32_t)(any() % 70);
    request.flags = any() % 4 == 0 ? PLUMB_PROBE_RETURN : 0;
    request.fetch_count = (uint32_t)(any() % (PLUMB_FETCH_MAX + 1));
    if (any() % 2) {
        request.flags = PLUMB_PROBE_CALL | (uint32_t)(any() % 8);
        request.offset = any() % 460;
        request.fetch_count %= PLUMB_CALL_ARGUMENTS_MAX + 1;
    }
    for (uint32_t i = 0; i < request.fetch_count; i++) {
        struct plumb_kernel_fetch* const fetch = &request.fetches[i];
        const int is_text = any() % 3 == 0;
        fetch->source = (uint8_t)(any() % 3);
        fetch->depth = (uint8_t)(any() % (PLUMB_FETCH_DEPTH_MAX + 1));
        fetch->number = (uint16_t)(any() % PLUMB_REGISTER_COUNT);
        fetch->flags = (uint16_t)(any() % PLUMB_FETCH_USER(PLUMB_FETCH_DEPTH_MAX));
        fetch->value = any() % 2 ? any() : any() % 65536;
        for (unsigned step = 0; step < fetch->depth; step++)
            fetch->offsets[step] = (int64_t)(any() % 2 ? any() : any() % 4096);
        fetch->type = is_text && fetch->depth != 0 ? PLUMB_FIELD_STRING : PLUMB_FIELD_INTEGER;
        fetch->size = fetch->type == PLUMB_FIELD_STRING ? 1 : (uint8_t)(1u << any() % 4);
    }
    if (any() % 4 == 0) ((unsigned char*)&request)[any() % sizeof(request)] = (unsigned char)any();
    probe(events, &request);
}
