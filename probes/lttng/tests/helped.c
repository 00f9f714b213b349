/*
 * Does what LTTng's helper libraries trace, so often: memory, mutexes, dlopen(), calls of functions, fork() and close(). The
 * second argument is a shared object to be loaded and unloaded.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_TRACED __attribute__((no_instrument_function))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

NOT_TRACED static void must(int is_so, const char* what) {
    if (is_so) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* -finstrument-functions */
__attribute__((noinline)) int traced_function(int number);
__attribute__((noinline)) int traced_function(int number) {
    return number + 1;
}

NOT_TRACED static void use_memory(void) {
    void* aligned = NULL;
    void* volatile first = malloc(777);
    void* volatile second = calloc(3, 259);
    first = realloc(first, 1777);
    must(posix_memalign(&aligned, 64, 778) == 0, "posix_memalign");
    void* volatile third = memalign(64, 779);
    free(first);
    free(second);
    free(aligned);
    free(third);
}

NOT_TRACED static void use_mutex(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    must(pthread_mutex_trylock(&mutex) == 0, "pthread_mutex_trylock");
    pthread_mutex_unlock(&mutex);
}

NOT_TRACED static void use_loader(const char* path) {
    void* const loaded = dlopen(path, RTLD_NOW);
    must(loaded != NULL, path);
    dlclose(loaded);
}

NOT_TRACED static void use_descriptors(void) {
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    close(ends[0]);
    FILE* const stream = fdopen(ends[1], "w");
    must(stream != NULL && fclose(stream) == 0, "fclose");
}

/* The child does one round of it, too. */
NOT_TRACED static void use_fork(void) {
    const pid_t child = fork();
    if (child == 0) {
        use_memory();
        use_mutex();
        traced_function(1);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    must(status == 0, "the child");
}

NOT_TRACED int main(int argc, char** argv) {
    const int rounds = argc > 2 ? atoi(argv[1]) : 0;
    for (int i = 0; i < rounds; i++) {
        use_memory();
        use_mutex();
        traced_function(i);
        use_loader(argv[2]);
        use_descriptors();
        use_fork();
    }
    return 0;
}
