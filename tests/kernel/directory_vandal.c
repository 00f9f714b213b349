/*
 * directory_vandal WHAT: what a user may do to his directory in plumb.ko, without a word to anybody.
 *
 *   damage        a state file of another size and content
 *   fifo          a pipe in its place
 *   fill          as much as there is room for
 *   remove        takes away what those have made
 *   open, close   the directory may be entered by others, or not
 */
#define _GNU_SOURCE
#include <plumb/abi/module.h>
#include <plumb/abi/state.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILLING "filling"

static int damage(int directory) {
    static char junk[4096];
    memset(junk, 0xff, sizeof(junk));
    const int file = openat(directory, PLUMB_STATE_FILE, O_CREAT | O_WRONLY, 0600);
    for (int i = 0; i < 1024; i++)
        if (write(file, junk, sizeof(junk)) != sizeof(junk)) return 1;
    return 0;
}

static int fill(int directory) {
    struct statvfs room;
    const int file = openat(directory, FILLING, O_CREAT | O_WRONLY, 0600);
    return fstatvfs(directory, &room) != 0 ||
           fallocate(file, 0, 0, (off_t)(room.f_bavail * room.f_frsize)) != 0;
}

int main(int count, char** arguments) {
    struct plumb_descriptor_request own = {0, -1};
    if (count != 2 || syscall(PLUMB_SYSCALL, PLUMB_OPERATION_DIRECTORY, &own, sizeof(own)) != 0) return 2;
    const char* const what = arguments[1];
    if (strcmp(what, "fill") == 0) return fill(own.descriptor);
    if (strcmp(what, "open") == 0) return fchmod(own.descriptor, 0777) != 0;
    if (strcmp(what, "close") == 0) return fchmod(own.descriptor, 0700) != 0;
    unlinkat(own.descriptor, PLUMB_STATE_FILE, 0);
    unlinkat(own.descriptor, FILLING, 0);
    if (strcmp(what, "damage") == 0) return damage(own.descriptor);
    if (strcmp(what, "fifo") == 0) return mkfifoat(own.descriptor, PLUMB_STATE_FILE, 0600) != 0;
    return strcmp(what, "remove") != 0;
}
