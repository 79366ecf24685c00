/* A closed loop of clients that asks several servers in turns, some tens of milliseconds each.

   Usage: turns kept|each CLIENTS SLICE_MS CYCLES SEED PATH LENGTH PORT...

   A machine that others use drifts by tenths within a second, so servers that are to be compared must be asked within
   the same tenth of a second. In each cycle every server has one slice, in an order drawn anew. A slice lasts from its
   first request until its last answer: when its time is over, no client asks again. With "kept" the connections to all
   servers stay open; with "each" every request has its own. Each answer must have status 200 and a body of LENGTH
   bytes, or the program ends with 1. Prints a line for each slice: cycle, index of the server, requests, nanoseconds. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SERVERS = 16, MOST_CLIENTS = 1000, HEAD = 1024, PATIENCE_MS = 30000 };

struct client {
    int fd;       /* -1 without a connection */
    long got;     /* bytes of this answer */
    long wanted;  /* bytes of the whole answer; 0 until its head is complete */
    char head[HEAD + 1];
};

static struct client clients[MOST_SERVERS][MOST_CLIENTS];
static char request[512], sink[1 << 16];
static int kept, asked_bytes, poll_fd;
static long body;

static void fail(const char *what) {
    fprintf(stderr, "turns: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void ask(struct client *c, int port) {
    if (c->fd < 0) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        int on = 1;
        if ((c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0) fail("no socket");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) fail("no connection");
        if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &event)) fail("epoll_ctl");
    }
    c->got = c->wanted = 0;
    if (write(c->fd, request, asked_bytes) != asked_bytes) fail("the request was not taken");
}

/* Reads what there is; returns whether the answer is complete. */
static int answered(struct client *c) {
    ssize_t n = recv(c->fd, sink, sizeof sink, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n < 0) fail("read");
    if (n == 0 && (kept || c->wanted == 0 || c->got != c->wanted)) errno = 0, fail("a connection ended too early");
    if (c->got < HEAD) memcpy(c->head + c->got, sink, n < HEAD - c->got ? n : HEAD - c->got);
    c->got += n;
    if (c->wanted == 0) {
        c->head[c->got < HEAD ? c->got : HEAD] = 0;
        char *end = strstr(c->head, "\r\n\r\n");
        if (end == NULL && c->got < HEAD) return 0;
        if (end == NULL || strncmp(c->head, "HTTP/1.1 200 ", 13)) errno = 0, fail("not an answer of status 200");
        c->wanted = end + 4 - c->head + body;
    }
    if (c->got > c->wanted) errno = 0, fail("an answer is too long");
    if (c->got < c->wanted || (!kept && n > 0)) return 0; /* a connection of one request ends with its end of file */
    if (!kept) close(c->fd), c->fd = -1;
    return 1;
}

static void slice(long cycle, int server, int port, int number, int64_t length_ns) {
    struct epoll_event events[256];
    int64_t start = now_ns(), stop = start + length_ns, now = start;
    long requests = 0;
    int open = number;
    for (int i = 0; i < number; i++) ask(&clients[server][i], port);
    while (open > 0) {
        int n = epoll_wait(poll_fd, events, 256, PATIENCE_MS);
        if (n <= 0) fail("no answer");
        now = now_ns();
        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;
            if (!answered(c)) continue;
            requests++;
            if (now < stop) ask(c, port);
            else open--;
        }
    }
    printf("%ld %d %ld %lld\n", cycle, server, requests, (long long)(now_ns() - start));
}

int main(int argc, char **argv) {
    int servers = argc - 8, order[MOST_SERVERS];
    if (servers < 1 || servers > MOST_SERVERS) return fprintf(stderr, "turns: see the first lines of turns.c\n"), 2;
    int number = atoi(argv[2]);
    if (number < 1 || number > MOST_CLIENTS) return fprintf(stderr, "turns: too many clients\n"), 2;
    kept = strcmp(argv[1], "kept") == 0;
    int64_t length_ns = atol(argv[3]) * INT64_C(1000000);
    long cycles = atol(argv[4]);
    srandom(atol(argv[5]));
    body = atol(argv[7]);
    asked_bytes = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", argv[6],
                           kept ? "" : "Connection: close\r\n");
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int s = 0; s < servers; s++) {
        order[s] = s;
        for (int i = 0; i < number; i++) clients[s][i].fd = -1;
    }
    for (long cycle = 0; cycle < cycles; cycle++) {
        for (int s = servers - 1; s > 0; s--) {
            int other = random() % (s + 1), was = order[s];
            order[s] = order[other], order[other] = was;
        }
        for (int s = 0; s < servers; s++) slice(cycle, order[s], atoi(argv[8 + order[s]]), number, length_ns);
    }
    return 0;
}
