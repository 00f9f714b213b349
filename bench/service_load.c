/*
 * Loads a memcached over some connections, each with many gets under way, and counts the answers.
 *
 *   bench_service_load PORT SECONDS      prints how many requests were answered in a second
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { connections = 8, batch = 64 };

static const char get[] = "get key\r\n";
static char answer[160]; /* of one get */
static size_t answer_bytes;

static void fail(const char* what) {
    perror(what);
    exit(1);
}

static int connect_to(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr*)&to, sizeof(to)) != 0) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static void store_key(int fd) {
    char value[65];
    char line[128];
    memset(value, 'v', 64);
    value[64] = '\0';
    int bytes = snprintf(line, sizeof(line), "set key 0 0 64\r\n%s\r\n", value);
    if (write(fd, line, (size_t)bytes) != bytes || read(fd, line, sizeof(line)) != 8) fail("set");
    answer_bytes = (size_t)snprintf(answer, sizeof(answer), "VALUE key 0 64\r\n%s\r\nEND\r\n", value);
}

static void send_batch(int fd) {
    char lines[batch * sizeof(get)];
    size_t bytes = 0;
    for (int i = 0; i < batch; i++, bytes += sizeof(get) - 1)
        memcpy(lines + bytes, get, sizeof(get) - 1);
    if (write(fd, lines, bytes) != (ssize_t)bytes) fail("write");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int count, char** arguments) {
    if (count != 3) {
        fputs("usage: bench_service_load PORT SECONDS\n", stderr);
        return 2;
    }
    struct pollfd ready[connections];
    size_t missing[connections]; /* bytes of the batch's answers */
    for (int i = 0; i < connections; i++) {
        ready[i] = (struct pollfd){.fd = connect_to(atoi(arguments[1])), .events = POLLIN};
        store_key(ready[i].fd);
        missing[i] = batch * answer_bytes;
        send_batch(ready[i].fd);
    }
    static char answers[1 << 16];
    unsigned long batches = 0;
    const double began = now();
    const double seconds = atof(arguments[2]);
    while (now() - began < seconds) {
        if (poll(ready, connections, 1000) <= 0) fail("poll");
        for (int i = 0; i < connections; i++) {
            if (ready[i].revents == 0) continue;
            const ssize_t got = read(ready[i].fd, answers, sizeof(answers));
            if (got <= 0 || (size_t)got > missing[i]) fail("read");
            missing[i] -= (size_t)got;
            if (missing[i] != 0) continue;
            batches++;
            missing[i] = batch * answer_bytes;
            send_batch(ready[i].fd);
        }
    }
    printf("%.0f\n", (double)batches * batch / (now() - began));
    return 0;
}
