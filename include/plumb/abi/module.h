/*
 * What plumb.ko answers. One set of operations by two ways:
 *
 *   long syscall(PLUMB_SYSCALL, operation, argument, bytes)      where the module could take the number
 *   int  ioctl(open("/dev/plumb"), PLUMB_IOCTL(operation, bytes), argument)    the same, where it could not
 *
 * `argument` is a struct of `bytes` bytes, in which the caller asks and is answered. It may be shorter or longer than that of
 * the module's version: what the caller does not have is not written, and what the module does not know must be 0 (E2BIG), so
 * that nobody believes that something was heard which was not. It is cleared before anything is done: who asks again after an error
 * fills it again. Results are 0 or what an operation says, or -1 and errno:
 *
 *   ENOSYS    by the system call: there is no module, or the number is not in its hands
 *   EOPNOTSUPP    an operation that this module does not know
 *   EINVAL    too few bytes for it, or a value that it does not take
 *   EMFILE, ENFILE, ENOMEM    no room for a descriptor
 *   EFAULT    memory that is not the caller's
 *   EPERM     what takes CAP_PERFMON or CAP_SYS_ADMIN: the kernel's events
 *
 * The system call needs no file system: it works before /dev is there. Any thread of any user may make it.
 */
#ifndef PLUMB_ABI_MODULE_H
#define PLUMB_ABI_MODULE_H

#include <plumb/abi/base.h>

/* x86-64: 387 to 423 are barred for new calls for good (arch/x86/entry/syscalls/syscall_64.tbl), and are inside the table, so
 * that the kernel's function for calls that do not exist is entered for them, where the module takes them. */
#define PLUMB_SYSCALL 417

#define PLUMB_DEVICE "/dev/plumb"
/* _IOC(_IOC_READ | _IOC_WRITE, 'P', operation, bytes) of <linux/ioctl.h>, written out. */
#define PLUMB_IOCTL(operation, bytes) \
    (3u << 30 | ((uint32_t)(bytes)&0x3fffu) << 16 | 0x50u << 8 | ((uint32_t)(operation)&0xffu))

#define PLUMB_MODULE_VERSION 1u

enum plumb_operation {
    PLUMB_OPERATION_ABOUT = 0, /* struct plumb_about: which module this is */
    PLUMB_OPERATION_CLOCK = 1, /* struct plumb_descriptor_request: the kernel's clock page */
    PLUMB_OPERATION_UPDATES =
        2, /* struct plumb_descriptor_request: who is to hear of new rules, and who has */
    PLUMB_OPERATION_KERNEL_EVENTS =
        3, /* struct plumb_descriptor_request: the kernel's events into a channel (<plumb/abi/kernel_events.h>) */
    PLUMB_OPERATION_DIRECTORY = 4 /* struct plumb_descriptor_request: where state and channels live */
};

/* plumb_about.ways */
#define PLUMB_WAY_SYSCALL 0x1u /* the module's self-test came through the system call */
#define PLUMB_WAY_DEVICE 0x2u

struct plumb_about {
    uint32_t version;    /* PLUMB_MODULE_VERSION of the module */
    uint32_t ways;       /* PLUMB_WAY_* that are open */
    uint64_t operations; /* a bit for each operation that it knows */
    uint32_t
        clock_mode; /* enum plumb_clock_mode of its clock page; PLUMB_CLOCK_NONE: the kernel keeps time by a counter
                           * that user space can not read */
    uint32_t reserved;
};

struct plumb_descriptor_request {
    uint32_t flags;     /* 0, or what an operation says */
    int32_t descriptor; /* the answer; it is closed on exec */
};

/*
 * PLUMB_OPERATION_CLOCK. The descriptor is of one page, struct plumb_clock_page, that only the kernel writes: mmap() it
 * PROT_READ, MAP_SHARED. Its values are those by which the kernel itself keeps CLOCK_MONOTONIC, renewed as often as they
 * change; the page stays mapped, and is not renewed any more, when the module is gone, which can not be while somebody maps
 * it.
 */

/*
 * PLUMB_OPERATION_UPDATES. On the descriptor, ioctl(descriptor, PLUMB_IOCTL(PLUMB_UPDATE_ASK, sizeof update), &update)
 * has a process ask again for its rules without ending any of its system calls early: each of its threads gets
 * work to do before its next instruction in user space, wherever it is. The first that comes by and does not block
 * the signal is sent it there, to itself, with this value (si_code SI_QUEUE), so that its handler runs at once;
 * for the others nothing happens. Threads that sleep go on sleeping. Asked again, by this or another descriptor of the same user's,
 * only those that have come by since get new work. Of each signal and value that a process is asked by it is sent one: runtimes in
 * it listen for different ones. (Two values of one signal, asked for at once, may come as one signal, with either of them.)
 *
 * So, as long as all of its threads sleep in system calls and have not come by (`asleep` == `threads`), the process does
 * nothing in user space before a thread of it has begun to ask; other threads that wake while that one asks go on by the old
 * rules until it has. Otherwise it says itself when it has (struct plumb_process).
 *
 * PLUMB_UPDATE_LOOK tells the same of what this process was last asked by this signal number, and asks for nothing. What was asked
 * for stays when the descriptor is closed; the module can not be unloaded before the last thread has come by, or ended.
 *
 *   EPERM     the caller may not signal that process (kill(2))
 *   ESRCH     there is no such process
 *   ENOENT    PLUMB_UPDATE_LOOK: it was not asked by this descriptor and signal
 *   ENOSPC    of what the caller's user has asked for, 262,144 threads have yet to come by; without CAP_SYS_RESOURCE
 *   EINVAL    the signal is not one whose default is to be ignored (SIGURG, SIGWINCH)
 */
enum plumb_update_operation { PLUMB_UPDATE_ASK = 0, PLUMB_UPDATE_LOOK = 1 };

struct plumb_update {
    uint32_t process_id; /* as the caller sees it */
    uint32_t signal_number;
    uint64_t value; /* si_value of the signal */
    /* The answer. */
    uint32_t threads; /* of the process, that have not ended */
    uint32_t asked;   /* of these, those that got work just now */
    uint32_t waiting; /* those that have not come by */
    uint32_t
        asleep; /* of these, those that sleep in a system call, or are stopped, and will be sent the signal if they come by first */
    uint32_t
        blocked; /* threads that came by and were not sent it, or sleep and would not be: they block it, or are in a call
                       * that it would end (KVM_RUN; any, with an io_uring), or another process goes on in their memory */
    uint32_t taken; /* signals sent since it was asked: 0 or 1 */
};

/*
 * PLUMB_OPERATION_DIRECTORY. The descriptor is of the caller's directory (of his effective user), which is made if it is missing:
 * mode 0700, his own, in memory, and there before any file system is mounted. State file and channels live in it as they do in
 * /dev/shm/plumb-UID without the module (<plumb/abi/state.h>), and are opened by openat(). Flags:
 *
 *   PLUMB_DIRECTORY_OF_ALL    that which has those of all users, plumb-UID each; for CAP_SYS_ADMIN
 *   PLUMB_DIRECTORY_FIX_SIZE  `descriptor` is of a file in a directory, open for writing: it keeps the size that it has, for
 *                             good and whoever asks, so that nobody can cut it from under those who have mapped it
 *
 *   EXDEV     who is in a process-id or user namespace of its own: /dev/shm is his
 *   ENODEV    the module is being unloaded
 *   EOPNOTSUPP   this kernel has no tmpfs
 *   EINVAL, EPERM, EBADF    PLUMB_DIRECTORY_FIX_SIZE: not a file in there; not open for writing; not open
 *
 * The module can not be unloaded while something in a directory is open or mapped, or is there and no state file.
 */
#define PLUMB_DIRECTORY_OF_ALL 0x1u
#define PLUMB_DIRECTORY_FIX_SIZE 0x2u

PLUMB_ABI_SIZE(struct plumb_about, 24);
PLUMB_ABI_OFFSET(struct plumb_about, operations, 8);
PLUMB_ABI_OFFSET(struct plumb_about, clock_mode, 16);
PLUMB_ABI_SIZE(struct plumb_descriptor_request, 8);
PLUMB_ABI_OFFSET(struct plumb_descriptor_request, descriptor, 4);
PLUMB_ABI_SIZE(struct plumb_update, 40);
PLUMB_ABI_OFFSET(struct plumb_update, value, 8);
PLUMB_ABI_OFFSET(struct plumb_update, threads, 16);
PLUMB_ABI_OFFSET(struct plumb_update, taken, 36);

#endif
