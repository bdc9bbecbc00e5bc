/* Connects to `link` for ROUNDS rounds, while one thread flips that link between `own`, which
 * this program serves, and `host`, and another flips the address in memory. Prints how many
 * calls connected, how many were refused, during how many the link changed, and the flips. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ROUNDS = 100000, CALLERS = 4, FLIPS = 2 };

static struct sockaddr_un address = { AF_UNIX, "link" };
static atomic_long rounds, connected, refused, overtaken, link_flips, memory_flips;
static atomic_int done;

static void expect(int holds, const char *call) {
    if (!holds) { perror(call); exit(1); }
}

static void *serve(void *server) {
    while (!done) close(accept(*(int *)server, NULL, NULL));
    return NULL;
}

static void *flip_link(void *nothing) {
    while (!done) {
        for (int host = 0; host < 2; host++) {
            expect(symlink(host ? "host" : "own", "new") == 0, "symlink");
            expect(rename("new", "link") == 0, "rename");
            link_flips++;
            /* More than a few during each call only cost time. */
            while (link_flips > FLIPS * rounds && !done) sched_yield();
        }
    }
    return nothing;
}

static void *flip_memory(void *nothing) {
    static const char names[3][5] = { "host", "link", "own" };
    while (!done) {
        for (int name = 0; name < 3; name++) {
            memcpy(address.sun_path, names[name], sizeof names[name]);
            memory_flips++;
            /* Or it would keep a processor from those that it is to disturb. */
            sched_yield();
        }
    }
    return nothing;
}

static void *call(void *nothing) {
    while (rounds++ < ROUNDS || link_flips < ROUNDS || memory_flips < ROUNDS) {
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        expect(client >= 0, "socket");
        long before = link_flips;
        if (connect(client, (struct sockaddr *)&address, sizeof address) == 0) connected++;
        else if (errno == EACCES) refused++;
        if (link_flips != before) overtaken++;
        close(client);
    }
    return nothing;
}

int main(void) {
    struct sockaddr_un own = { AF_UNIX, "own" };
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    expect(bind(server, (struct sockaddr *)&own, sizeof own) == 0, "bind");
    expect(listen(server, 4096) == 0, "listen");
    expect(symlink("own", "link") == 0, "symlink");
    pthread_t thread, flippers[2], callers[CALLERS];
    expect(pthread_create(&thread, NULL, serve, &server) == 0, "pthread_create");
    expect(pthread_create(&flippers[0], NULL, flip_link, NULL) == 0, "pthread_create");
    expect(pthread_create(&flippers[1], NULL, flip_memory, NULL) == 0, "pthread_create");
    for (int i = 0; i < CALLERS; i++)
        expect(pthread_create(&callers[i], NULL, call, NULL) == 0, "pthread_create");
    for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], NULL);
    done = 1;
    for (int i = 0; i < 2; i++) pthread_join(flippers[i], NULL);
    printf("%ld %ld %ld %ld %ld\n", connected, refused, overtaken, link_flips, memory_flips);
    return 0;
}
