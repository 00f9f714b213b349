/* module_calls: a call that does not end, since its argument lies in a page that is brought in much later. */
#define _GNU_SOURCE
#include "module_calls.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { page_bytes = 4096 };

static void* ask_about(void* page) {
    return (void*)by_syscall(PLUMB_OPERATION_ABOUT, page, sizeof(struct plumb_about));
}

void be_stuck(const char* file) {
    struct uffdio_api api = {UFFD_API, 0, 0};
    struct uffd_msg fault;
    pthread_t thread;
    void* result;
    const int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    void* const page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register of_page = {{(uintptr_t)page, page_bytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
    struct uffdio_zeropage given = {{(uintptr_t)page, page_bytes}, 0, 0};

    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0 || ioctl(faults, UFFDIO_REGISTER, &of_page) != 0)
        return expect(0, "stuck", "no userfaultfd");
    close_device();
    pthread_create(&thread, NULL, ask_about, page);
    expect(read(faults, &fault, sizeof(fault)) == sizeof(fault), "stuck", "it waits for the page");
    close(open(file, O_CREAT | O_WRONLY, 0600));
    while (access(file, F_OK) == 0)
        usleep(10000);
    expect(ioctl(faults, UFFDIO_ZEROPAGE, &given) == 0, "stuck", "the page");
    pthread_join(thread, &result);
    expect(result == NULL && ((struct plumb_about*)page)->version == PLUMB_MODULE_VERSION, "stuck",
           "answered");
}
