/*
 * Channels for the kernel's events (<plumb/abi/kernel_events.h>): right and wrong questions, and whatever else somebody can do
 * who may ask for them: headers that are wrong in one word, files that are cut and holed while the kernel writes to them,
 * descriptors that are closed, and processes that are killed, at any moment.
 */
#define _GNU_SOURCE
#include "module_calls.h"
#include "module_filters.h"
#include "module_probes.h"
#include "random_numbers.h"

#include <plumb/abi/channel.h>
#include <plumb/abi/kernel_events.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { subbuf_bytes = 4096, subbuf_count = 4, rings = 3, data_offset = 16384 };
enum { channel_bytes = data_offset + rings * subbuf_bytes * subbuf_count + PLUMB_CHANNEL_GUARD };

static const char way[] = "kernel events";

static int open_kernel_events(void) {
    struct plumb_descriptor_request request = {0, -1};
    return by_syscall(PLUMB_OPERATION_KERNEL_EVENTS, &request, sizeof(request)) == 0 ? request.descriptor
                                                                                     : -1;
}

static struct plumb_channel_header good_header(void) {
    struct plumb_channel_header header;
    memset(&header, 0, sizeof(header));
    header.magic = PLUMB_CHANNEL_MAGIC;
    header.version_major = PLUMB_CHANNEL_VERSION_MAJOR;
    header.domain = PLUMB_DOMAIN_KERNEL;
    header.mode = PLUMB_MODE_DISCARD;
    header.total_bytes = channel_bytes;
    header.ring_count = 2;
    header.extra_ring_count = 1;
    header.subbuf_bytes = subbuf_bytes;
    header.subbuf_count = subbuf_count;
    header.ring_bytes = subbuf_bytes * subbuf_count;
    header.control_offset = 4096;
    header.data_offset = data_offset;
    header.clock.mode = PLUMB_CLOCK_TSC;
    return header;
}

static int make_file(const struct plumb_channel_header* header, off_t bytes) {
    const int file = memfd_create("channel", 0);
    if (file < 0 || ftruncate(file, bytes) != 0 || pwrite(file, header, sizeof(*header), 0) < 0) return -1;
    return file;
}

static int give(int events, int file) {
    struct plumb_kernel_channel request = {file, 0};
    return ioctl(events, (unsigned long)PLUMB_IOCTL(PLUMB_KERNEL_CHANNEL, sizeof(request)), &request);
}

static int turn(int events, unsigned operation, uint32_t index, uint32_t id) {
    struct plumb_kernel_switch request = {index, id};
    return ioctl(events, (unsigned long)PLUMB_IOCTL(operation, sizeof(request)), &request);
}

static int tell(int events, unsigned operation) {
    return ioctl(events, (unsigned long)PLUMB_IOCTL(operation, 0), NULL);
}

static int follow(int events, int32_t process_id, uint32_t reserved) {
    struct plumb_kernel_follow request = {process_id, reserved};
    return ioctl(events, (unsigned long)PLUMB_IOCTL(PLUMB_KERNEL_FOLLOW, sizeof(request)), &request);
}

static int fails(int result, int error) {
    return result == -1 && errno == error;
}

/* The channel that would be given by it is refused. */
static void expect_refused(int events, const struct plumb_channel_header* header, off_t bytes, int error,
                           const char* what) {
    const int file = make_file(header, bytes);
    expect(fails(give(events, file), error), way, what);
    close(file);
}

static void check_headers(int events) {
    const struct plumb_channel_header good = good_header();
    struct plumb_channel_header header;
    expect_refused(events, &good, data_offset, EINVAL, "shorter than its rings");
    expect_refused(events, &good, 100, EINVAL, "shorter than a header");
#define WRONG(field, value, error) \
    header = good;                 \
    header.field = (value);        \
    expect_refused(events, &header, channel_bytes, error, #field " " #value)
    WRONG(magic, 7, EINVAL);
    WRONG(version_major, PLUMB_CHANNEL_VERSION_MAJOR + 1, EINVAL);
    WRONG(domain, PLUMB_DOMAIN_USER, EINVAL);
    WRONG(mode, PLUMB_MODE_BLOCK, EINVAL);
    WRONG(ring_count, 0, EINVAL);
    WRONG(ring_count, 0xffffffff, EINVAL);
    WRONG(ring_count, 40, EINVAL);
    WRONG(extra_ring_count, 0xffffffff, EINVAL);
    WRONG(subbuf_bytes, 5000, EINVAL);
    WRONG(subbuf_bytes, 8, EINVAL);
    WRONG(subbuf_count, 3, EINVAL);
    WRONG(subbuf_count, 1, EINVAL);
    WRONG(ring_bytes, 1ull << 40, EINVAL);
    WRONG(control_offset, 0, EINVAL);
    WRONG(control_offset, 4100, EINVAL);
    WRONG(control_offset, ~63ull, EINVAL);
    WRONG(data_offset, 4096, EINVAL);
    WRONG(data_offset, ~7ull, EINVAL);
    WRONG(clock.mode, PLUMB_CLOCK_NONE, EOPNOTSUPP);
#undef WRONG
}

/* And its pages are not taken into memory for that. */
static void check_written_ring(int events) {
    const struct plumb_channel_header header = good_header();
    const uint64_t position = subbuf_bytes;
    for (unsigned place = 0; place < 4; place++) {
        const size_t word = place % 2 == 0 ? offsetof(struct plumb_ring_control, write_pos)
                                           : offsetof(struct plumb_ring_control, consumed);
        const int file = make_file(&header, channel_bytes);
        const off_t at = (off_t)(header.control_offset + place / 2 * PLUMB_RING_CONTROL_BYTES + word);
        struct stat found;
        expect(pwrite(file, &position, sizeof(position), at) == sizeof(position), way,
               "a ring that is written");
        expect(fails(give(events, file), EINVAL), way, "somebody has written there");
        expect(fstat(file, &found) == 0 && found.st_blocks * 512 <= 2 * 4096, way,
               "memory of what was refused");
        close(file);
    }
}

static uint32_t index_of(int events, const char* name) {
    struct plumb_kernel_event event;
    memset(&event, 0, sizeof(event));
    while (ioctl(events, (unsigned long)PLUMB_IOCTL(PLUMB_KERNEL_DESCRIBE, sizeof(event)), &event) == 0) {
        if (strcmp(event.name, name) == 0) return event.index;
        event.index++;
    }
    expect(errno == ENOENT && event.index > 100, way, "behind the last event");
    return 0xffffffff;
}

/* Records of this id, of all rings, as nobody has handed anything back. */
static unsigned long records_of(const unsigned char* channel, uint16_t id) {
    unsigned long found = 0;
    for (unsigned ring = 0; ring < rings; ring++) {
        const struct plumb_ring_control* const control =
            (const struct plumb_ring_control*)(channel + 4096 + ring * PLUMB_RING_CONTROL_BYTES);
        const unsigned char* const data = channel + data_offset + ring * subbuf_bytes * subbuf_count;
        uint64_t last = 0;
        for (uint64_t at = 0; at < control->write_pos;) {
            const struct plumb_record* const record = (const struct plumb_record*)(data + at);
            const int is_padding = record->event_id == PLUMB_EVENT_ID_PADDING;
            const uint64_t bytes = is_padding ? record->thread_id : (record->length + 7u) & ~7u;
            expect(record->timestamp >= last && bytes >= 16 && at % subbuf_bytes + bytes <= subbuf_bytes, way,
                   "a record that is not whole, or not in order");
            if (bytes < 16) break;
            found += record->event_id == id;
            last = record->timestamp;
            at += bytes;
            if (subbuf_bytes - at % subbuf_bytes < 16) at += subbuf_bytes - at % subbuf_bytes;
        }
    }
    return found;
}

/* Of who waits for `events` since before there was a channel, which has records now. */
static void expect_woken(int waiting) {
    struct epoll_event found = {0, {0}};
    expect(epoll_wait(waiting, &found, 1, 5000) == 1 && found.events == EPOLLIN, way,
           "a sub-buffer was entered, for who waits since before");
    close(waiting);
}

static void record_own_calls(int events, uint32_t enter) {
    const struct plumb_channel_header header = good_header();
    const int file = make_file(&header, channel_bytes), other = make_file(&header, channel_bytes);
    unsigned char* const channel = mmap(NULL, channel_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    uint64_t entered = 0;
    expect(fails(turn(events, PLUMB_KERNEL_ENABLE, enter, 9), ENOTCONN), way, "enabled without a channel");
    expect(fails(tell(events, PLUMB_KERNEL_BEGIN), ENOTCONN), way, "begun without a channel");
    expect(read(events, &entered, sizeof(entered)) == -1 && errno == EAGAIN, way, "read without a channel");
    const int waiting = epoll_create1(0);
    struct epoll_event wanted = {EPOLLIN, {0}};
    expect(epoll_ctl(waiting, EPOLL_CTL_ADD, events, &wanted) == 0 &&
               epoll_wait(waiting, &wanted, 1, 0) == 1 && wanted.events == EPOLLERR,
           way, "waited for without a channel");
    expect(give(events, file) == 0, way, "a channel");
    expect(epoll_wait(waiting, &wanted, 1, 0) == 0, way, "nothing was entered yet");
    expect(fails(give(events, other), EBUSY), way, "a second channel");
    expect(fails(turn(events, PLUMB_KERNEL_ENABLE, enter, 0), EINVAL), way, "id 0");
    expect(fails(turn(events, PLUMB_KERNEL_ENABLE, enter, 65536), EINVAL), way, "id 65536");
    expect(fails(turn(events, PLUMB_KERNEL_ENABLE, 100000, 9), ENOENT), way, "an index behind the last");
    expect(fails(turn(events, PLUMB_KERNEL_DISABLE, enter, 9), ENOENT), way, "disabled and not on");
    expect(turn(events, PLUMB_KERNEL_ENABLE, enter, 9) == 0, way, "enabled");
    expect(fails(turn(events, PLUMB_KERNEL_ENABLE, enter, 10), EBUSY), way, "enabled twice");
    const pid_t child = fork();
    if (child == 0) {
        for (;;)
            getppid();
    }
    usleep(50000);
    expect(records_of(channel, 9) == 0, way, "a record before it has begun");
    expect(tell(events, PLUMB_KERNEL_BEGIN) == 0, way, "begun");
    expect_woken(waiting);
    struct pollfd watched = {events, POLLIN, 0};
    expect(poll(&watched, 1, 5000) == 1 && watched.revents == POLLIN, way, "a sub-buffer was entered");
    usleep(50000);
    expect(tell(events, PLUMB_KERNEL_END) == 0, way, "ended");
    const unsigned long found = records_of(channel, 9);
    usleep(50000);
    expect(found > 100 && records_of(channel, 9) == found, way, "a record behind the end");
    expect(read(events, &entered, 4) == -1 && errno == EINVAL, way, "read of four bytes");
    expect(read(events, &entered, sizeof(entered)) == sizeof(entered) && entered >= subbuf_count, way,
           "sub-buffers entered");
    expect(turn(events, PLUMB_KERNEL_DISABLE, enter, 9) == 0, way, "disabled");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(channel, channel_bytes);
    close(file);
    close(other);
}

static void wake_up(int number) {
    (void)number;
}

static int with_channel(void) {
    const struct plumb_channel_header header = good_header();
    const int events = open_kernel_events();
    return give(events, make_file(&header, channel_bytes)) == 0 ? events : -1;
}

static pid_t switch_all_the_time(void) {
    const pid_t child = fork();
    if (child != 0) return child;
    const int events = with_channel();
    const uint32_t index = index_of(events, "sys_enter");
    while (turn(events, PLUMB_KERNEL_ENABLE, index, 40) == 0 &&
           turn(events, PLUMB_KERNEL_DISABLE, index, 0) == 0)
        ;
    _exit(1);
}

static pid_t signal_all_the_time(void) {
    const pid_t child = fork();
    while (child == 0) {
        kill(getppid(), SIGUSR1);
        usleep(2000);
    }
    return child;
}

/* One waits for the other, who has the events for as long as it takes to switch one: a signal meanwhile is no answer. */
static void check_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = wake_up;
    sigaction(SIGUSR1, &action, NULL);
    const pid_t other = switch_all_the_time(), signals = signal_all_the_time();
    const int events = with_channel();
    const uint32_t index = index_of(events, "sys_exit");
    for (int i = 0; i < 40; i++) {
        expect(turn(events, PLUMB_KERNEL_ENABLE, index, 40) == 0, way, "switched on while signals come");
        expect(turn(events, PLUMB_KERNEL_DISABLE, index, 0) == 0, way, "switched off while signals come");
    }
    kill(signals, SIGKILL);
    waitpid(signals, NULL, 0);
    expect(waitpid(other, NULL, WNOHANG) == 0, way, "the other one");
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    close(events);
}

/* It may have ended by then, with a child that keeps the descriptor, and its number may be another process's. */
static void check_recorder_that_closes(void) {
    const struct plumb_channel_header header = good_header();
    const int events = open_kernel_events(), file = make_file(&header, channel_bytes);
    unsigned char* const channel = mmap(NULL, channel_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    expect(give(events, file) == 0 &&
               turn(events, PLUMB_KERNEL_ENABLE, index_of(events, "sys_enter"), 9) == 0 &&
               follow(events, getpid(), 0) == 0 && tell(events, PLUMB_KERNEL_BEGIN) == 0,
           way, "a recording of its recorder");
    for (int i = 0; i < 50; i++)
        getppid();
    expect(records_of(channel, 9) == 0, way, "its recorder is left out");
    close(dup(events));
    for (int i = 0; i < 50; i++)
        getppid();
    expect(records_of(channel, 9) >= 50, way, "who has closed its descriptor is a process as others");
    munmap(channel, channel_bytes);
    close(file);
    close(events);
}

void check_kernel_events(void) {
    const int events = open_kernel_events();
    expect(events >= 0, way, "a descriptor");
    const struct plumb_channel_header header = good_header();
    const int in_proc = open("/proc/self/comm", O_RDWR), good = make_file(&header, channel_bytes);
    char name[64];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", good);
    const int not_writable = open(name, O_RDONLY), device = open("/dev/zero", O_RDWR);
    expect(fails(give(events, -1), EBADF), way, "no descriptor");
    expect(fails(give(events, events), EINVAL), way, "itself");
    expect(fails(give(events, in_proc), EINVAL), way, "a file that is not in memory");
    expect(fails(give(events, device), EINVAL), way, "a device");
    expect(fails(give(events, not_writable), EBADF), way, "a file that may not be written to");
    expect(fails(ioctl(events, (unsigned long)PLUMB_IOCTL(10, 8), &name), ENOTTY), way,
           "an unknown operation");
    expect(fails(ioctl(events, (unsigned long)PLUMB_IOCTL(PLUMB_KERNEL_CHANNEL, 8), NULL), EFAULT), way,
           "no memory");
    expect(fails(follow(events, 0, 0), ENOTCONN), way, "followed without a channel");
    const int sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
    expect(ftruncate(sealed, channel_bytes) == 0 && pwrite(sealed, &header, sizeof(header), 0) > 0 &&
               fcntl(sealed, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0,
           way, "a sealed file");
    expect(fails(give(events, sealed), EPERM), way, "a file that is sealed");
    check_probes_without_channel(events);
    check_filters_without_channel(events);
    check_headers(events);
    check_written_ring(events);
    record_own_calls(events, index_of(events, "sys_enter"));
    check_probes(events);
    check_filters(events);
    expect(index_of(events, "no_such_event") == 0xffffffff, way, "an event that is not there");
    close(events);
    const pid_t child = fork();
    if (child == 0) {
        if (setgid(1001) != 0 || setuid(1001) != 0) _exit(2);
        _exit(open_kernel_events() == -1 && errno == EPERM ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    expect(status == 0, way, "a user who may not");
    check_signals();
    check_recorder_that_closes();
}

/* ---- anything at any moment ---- */

static void scribble(unsigned char* channel) {
    for (int i = 0; i < 200; i++) {
        const uint64_t at =
            below(2) ? 4096 + below(rings * PLUMB_RING_CONTROL_BYTES) : below(channel_bytes - 8);
        *(volatile uint64_t*)(channel + at / 8 * 8) = below(2) ? any() : below(1 << 16) * 8;
    }
}

static void hurt_file(int file) {
    const off_t at = (off_t)(4096 * below(channel_bytes / 4096));
    switch (below(4)) {
    case 0:
        if (ftruncate(file, at) == 0 && below(2)) (void)!ftruncate(file, channel_bytes);
        break;
    case 1:
        fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)(4096 * (1 + below(8))));
        break;
    default:
        break;
    }
}

static void live(uint64_t seed) {
    state = seed | 1;
    for (;;) {
        struct plumb_channel_header header = good_header();
        if (below(2)) header.mode = PLUMB_MODE_OVERWRITE;
        if (below(4) == 0) ((unsigned char*)&header)[below(128)] = (unsigned char)any();
        const int events = open_kernel_events(), file = make_file(&header, channel_bytes);
        unsigned char* const channel = mmap(NULL, channel_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        give(events, file);
        for (unsigned i = 0, count = (unsigned)below(12); i < count; i++)
            turn(events, PLUMB_KERNEL_ENABLE, (uint32_t)below(130), (uint32_t)below(70));
        tell(events, PLUMB_KERNEL_BEGIN);
        for (unsigned i = 0, count = (unsigned)below(40); i < count; i++) {
            uint64_t entered;
            struct pollfd watched = {events, POLLIN, 0};
            switch (below(9)) {
            case 0:
                turn(events, below(2) ? PLUMB_KERNEL_ENABLE : PLUMB_KERNEL_DISABLE, (uint32_t)below(130),
                     (uint32_t)any());
                break;
            case 1:
                tell(events, below(2) ? PLUMB_KERNEL_BEGIN : PLUMB_KERNEL_END);
                break;
            case 2:
                (void)!read(events, &entered, sizeof(entered));
                poll(&watched, 1, (int)below(3));
                break;
            case 3:
                ioctl(events, (unsigned long)PLUMB_IOCTL(below(10), below(64)), (void*)any());
                break;
            case 4:
                hurt_file(file);
                break;
            case 5:
                give(events, (int)below(8));
                break;
            case 6:
                random_filter(events, any);
                if (below(3) == 0) random_probe(events, any); /* each takes long to take away */
                break;
            case 7:
                follow(events, below(3) ? (int32_t)below(2000) : (int32_t)any(), below(8) == 0);
                break;
            default:
                if (below(2)) usleep((useconds_t)below(2000));
            }
        }
        if (lseek(file, 0, SEEK_END) == channel_bytes)
            scribble(channel); /* not where it was cut: SIGBUS is ours alone */
        close(events);
        munmap(channel, channel_bytes);
        close(file);
    }
}

void thrash_channels(long seconds, unsigned seed) {
    const time_t end = time(NULL) + seconds;
    pid_t children[6];
    unsigned long lives = 0;
    for (unsigned i = 0; i < 6; i++)
        children[i] = 0;
    srand(seed);
    while (time(NULL) < end)
        for (unsigned i = 0; i < 6; i++) {
            int status;
            if (children[i] != 0 && rand() % 4 == 0) kill(children[i], SIGKILL);
            if (children[i] != 0 && waitpid(children[i], &status, WNOHANG) != children[i]) continue;
            children[i] = fork();
            if (children[i] == 0) live(seed + ++lives * 7919u + i);
            lives++;
            usleep(50000);
        }
    for (unsigned i = 0; i < 6; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    printf("%lu lives\n", lives);
}
