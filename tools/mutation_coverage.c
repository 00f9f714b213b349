/* Notes which blocks of code ran, for tools/mutate: it links this into each program and library of its coverage build, whose
 * code calls __sanitizer_cov_trace_pc() at the begin of each block (-fsanitize-coverage=trace-pc).
 *
 * A module notes in a file that it maps shared, MUTATION_COVERAGE/ran/ with its build id: what ran is there however the
 * program ends, by a signal, by _exit() or by exec, and in children. It holds for code that runs in signal handlers, before
 * constructors and without a C library, too: system calls only, and only for the first block. Who cannot note ends at
 * once, so that a test whose coverage is not the truth fails. The module itself is kept beside it in elf/: tests build and
 * remove programs of their own. */
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where this module begins. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
void __sanitizer_cov_trace_pc(void);

static char* noted;

static long call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static long open_file(const char* path, int flags) {
    const long file = call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0666, 0, 0);
    /* For all users, whatever the umask is. */
    if (file >= 0 && flags & O_CREAT) call(SYS_fchmod, file, 0666, 0, 0, 0, 0);
    return file;
}

static void close_file(long file) {
    call(SYS_close, file, 0, 0, 0, 0, 0);
}

static unsigned long hexadecimal(const char** text) {
    unsigned long value = 0;
    for (;; (*text)++) {
        const char c = **text;
        if (c >= '0' && c <= '9')
            value = value * 16 + (unsigned long)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (unsigned long)(c - 'a' + 10);
        else
            return value;
    }
}

/* Copies the file that is mapped where this module begins. */
static void keep_module(const char* path) {
    enum { room = 1 << 18 };
    const long to = open_file(path, O_CREAT | O_EXCL | O_WRONLY);
    if (to < 0) return; /* it is there */
    char* const maps =
        (char*)call(SYS_mmap, 0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const long list = open_file("/proc/self/maps", O_RDONLY);
    long used = 0, bytes;
    while (used < room - 1 &&
           (bytes = call(SYS_read, list, (long)(maps + used), room - 1 - used, 0, 0, 0)) > 0)
        used += bytes;
    close_file(list);
    for (char* line = maps; *line; line++) {
        const char* at = line;
        const unsigned long begin = hexadecimal(&at);
        at++;
        const unsigned long end = hexadecimal(&at);
        const char* name = NULL;
        for (; *line && *line != '\n'; line++)
            if (*line == '/' && !name) name = line;
        if (!*line) break;
        if ((unsigned long)__ehdr_start < begin || (unsigned long)__ehdr_start >= end || !name) continue;
        *line = 0;
        const long from = open_file(name, O_RDONLY);
        while (call(SYS_sendfile, to, from, 0, 1 << 30, 0, 0) > 0) {
        }
        close_file(from);
        break;
    }
    close_file(to);
    call(SYS_munmap, (long)maps, room, 0, 0, 0, 0);
}

static const unsigned char* build_id(const Elf64_Phdr* notes, unsigned long base) {
    const char* note = __ehdr_start + (notes->p_vaddr - base);
    const char* const end = note + notes->p_memsz;
    while (note + sizeof(Elf64_Nhdr) <= end) {
        const Elf64_Nhdr* const head = (const Elf64_Nhdr*)note;
        const char* const name = note + sizeof(*head);
        if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && head->n_descsz == 20 && name[0] == 'G')
            return (const unsigned char*)name + 4;
        note = name + ((head->n_namesz + 3) & ~3u) + ((head->n_descsz + 3) & ~3u);
    }
    return NULL;
}

static char* begin_noting(void) {
    static const char ran[] = MUTATION_COVERAGE "/ran/", elf[] = MUTATION_COVERAGE "/elf/",
                      digits[] = "0123456789abcdef";
    const Elf64_Ehdr* const head = (const Elf64_Ehdr*)__ehdr_start;
    const Elf64_Phdr* const segments = (const Elf64_Phdr*)(__ehdr_start + head->e_phoff);
    unsigned long base = 0; /* not 0 in a program that is not position-independent */
    const unsigned char* id = NULL;
    long bytes = 0;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        const Elf64_Phdr* const segment = &segments[i];
        if (segment->p_type == PT_LOAD && segment->p_offset == 0) base = segment->p_vaddr;
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
            bytes = (long)(segment->p_vaddr + segment->p_memsz - base) / 4 + 1;
        if (segment->p_type == PT_NOTE && !id) id = build_id(segment, base);
    }
    if (!id) __builtin_trap();
    char path[sizeof(ran) + 40];
    char* at = path + sizeof(ran) - 1;
    for (unsigned i = 0; i < 20; i++) {
        *at++ = digits[id[i] >> 4];
        *at++ = digits[id[i] & 15];
    }
    *at = 0;
    __builtin_memcpy(path, elf, sizeof(elf) - 1);
    keep_module(path);
    __builtin_memcpy(path, ran, sizeof(ran) - 1);
    long file = open_file(path, O_CREAT | O_EXCL | O_RDWR);
    if (file < 0) file = open_file(path, O_RDWR);
    if (file < 0) __builtin_trap();
    /* Who comes second finds the size that it would give it. */
    if (call(SYS_lseek, file, 0, SEEK_END, 0, 0, 0) < bytes &&
        call(SYS_ftruncate, file, bytes, 0, 0, 0, 0) != 0)
        __builtin_trap();
    const long mapped = call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped < 0 && mapped > -4096) __builtin_trap();
    close_file(file);
    return noted = (char*)mapped;
}

void __sanitizer_cov_trace_pc(void) {
    char* ran = noted;
    /* A call has five bytes at least: no two return to the same four. */
    const unsigned long place = (unsigned long)((const char*)__builtin_return_address(0) - __ehdr_start) / 4;
    if (!ran) ran = begin_noting();
    if (!ran[place]) ran[place] = 1;
}
