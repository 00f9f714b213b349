/*
 * Texts that are in a file's page which is not in memory when the call begins, where they are not told late, or not of another call:
 *
 *   late_texts exec|thread FILE   runs itself anew by such a text, in the second case by a thread that is not the first one; the new
 *                                 program tries to run one that is not there
 *   late_texts denied FILE        the same, and such calls are refused to the new program by seccomp, before anybody is told that they began
 *   late_texts open FILE          opens two by such texts, the second for reading and writing, and renames one that is such a text
 *   late_texts lost FILE RECORDER stops the recorder, and opens a wrong pointer; then what is not there, until the buffer is full; and
 *                                 by such a text a FIFO that another process opens when the recorder goes on
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In a page of the file that this program has not touched. */
static char* not_mapped_yet(const char* file, const char* text) {
    const int opened = open(file, O_RDWR | O_CREAT, 0600);
    if (opened < 0 || pwrite(opened, text, strlen(text) + 1, 4096) < 0) _exit(2);
    char* const mapped = mmap(NULL, 8192, PROT_READ, MAP_SHARED, opened, 0);
    close(opened);
    if (mapped == MAP_FAILED) _exit(2);
    return mapped + 4096;
}

static char *program, *how;

static void* run_again(void* unused) {
    char* const arguments[] = {"late_texts", "again", how, NULL};
    char* const nothing[] = {NULL};
    syscall(SYS_execve, program, arguments, nothing);
    _exit(3);
    return unused;
}

static void refuse_execve(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof(rules) / sizeof(rules[0]), rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(2);
}

static int try_another(void) {
    static char path[] = "/no/such/program";
    char* const nothing[] = {NULL};
    path[0] = '/'; /* in memory */
    return syscall(SYS_execve, path, nothing, nothing) == -1 ? 0 : 4;
}

static int call_each(const char* file) {
    static char known[] = "/known";
    known[0] = '/'; /* in memory */
    syscall(SYS_openat, AT_FDCWD, not_mapped_yet(file, "/late"), O_RDONLY, 0);
    syscall(SYS_openat, AT_FDCWD, not_mapped_yet(file, "/late"), O_RDWR, 0);
    syscall(SYS_renameat2, AT_FDCWD, not_mapped_yet(file, "/late"), AT_FDCWD, known, 1);
    return 0;
}

static int lose_an_entry(const char* file, pid_t recorder) {
    static char nothing[] = "/no", fifo[] = "/tmp/fifo";
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    char* const late = not_mapped_yet(file, fifo);
    nothing[0] = '/'; /* in memory */
    if (mkfifo(fifo, 0600) != 0 || sched_setaffinity(0, sizeof(here), &here) != 0) return 2;
    if (kill(recorder, SIGSTOP) != 0) return 2;
    syscall(SYS_openat, AT_FDCWD, 16L, O_RDONLY, 0);
    for (int i = 0; i < 20000; i++)
        syscall(SYS_openat, AT_FDCWD, nothing, O_RDONLY, 0);
    if (fork() != 0) return syscall(SYS_openat, AT_FDCWD, late, O_RDONLY, 0) < 0;
    sleep(1); /* until the other one waits; and then, until there is room */
    kill(recorder, SIGCONT);
    sleep(1);
    _exit(open(fifo, O_WRONLY) < 0);
}

int main(int count, char** arguments) {
    if (count == 4) return lose_an_entry(arguments[2], atoi(arguments[3]));
    if (count != 3) return 2;
    if (strcmp(arguments[1], "again") == 0) {
        if (strcmp(arguments[2], "denied") == 0) refuse_execve();
        return try_another();
    }
    if (strcmp(arguments[1], "open") == 0) return call_each(arguments[2]);
    how = arguments[1];
    program = not_mapped_yet(arguments[2], "/bin/late_texts");
    if (strcmp(how, "thread") != 0) run_again(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, run_again, NULL);
    pthread_join(thread, NULL);
    return 3;
}
