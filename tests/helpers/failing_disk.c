/* Fails a ledger's disk and sets its clock back, at moments that a test chooses.

   Loaded before libc into a server: the functions below are what SQLite and Python call. The test
   writes what goes wrong next into a file that both have mapped. Only files named budget.db, with
   or without an ending, are met.

   A power cut loses any of the writes since a file was synced, and tears the one that is under way:
   they are kept here, with what was in the file before them. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { NOTHING, SHORT, WRITE, FULL, SYNC, READ, POWER_WRITE, POWER_SYNC, CHECKPOINT };
enum { MAIN, WAL, OTHER, FILES };

struct control {
    uint32_t fault;     /* what goes wrong */
    int32_t left;       /* how often it goes well before */
    uint32_t hits;      /* how often it went wrong */
    uint32_t seed;      /* decides which writes a power cut loses */
    int64_t behind;     /* nanoseconds by which the clock is behind */
};

struct done {
    struct done *before;
    off_t at;
    size_t size;
    int file;
    char old[];
};

static struct control *control;
static struct done *unsynced[FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_pread = dlsym(RTLD_NEXT, "pread64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("FAILING_DISK");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *found = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) control = found;
}

/* Which of the ledger's files this is; -1 for all others. */
static int file_of(int fd) {
    if (control == NULL) return -1;
    char link[32] = "/proc/self/fd/", path[4096];
    int digits = 0, n = fd;
    char number[12];
    do number[digits++] = '0' + n % 10; while (n /= 10);
    size_t end = strlen(link);
    while (digits) link[end++] = number[--digits];
    link[end] = 0;
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return -1;
    path[length] = 0;
    const char *name = strrchr(path, '/');
    if (name == NULL || strncmp(name, "/budget.db", 10)) return -1;
    return name[10] == 0 ? MAIN : strcmp(name + 10, "-wal") ? OTHER : WAL;
}

static int goes_wrong(uint32_t fault) {
    if (control->fault != fault) return 0;
    if (__atomic_fetch_sub(&control->left, 1, __ATOMIC_SEQ_CST) > 0) return 0;
    if (fault != FULL) control->fault = NOTHING;
    control->hits++;
    return 1;
}

static uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static void cut_power(void) {
    uint32_t state = control->seed;
    for (int file = 0; file < FILES; file++) {
        uint32_t lost = draw(&state) % 4; /* a quarter, a half, three quarters or all of them */
        int fd = -1;
        for (struct done *one = unsynced[file]; one != NULL; one = one->before) {
            if (fd < 0) fd = one->file;
            if (draw(&state) % 4 <= lost) real_pwrite(fd, one->old, one->size, one->at);
        }
    }
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static void remember(int file, int fd, size_t size, off_t at) {
    struct done *one = calloc(1, sizeof *one + size); /* past the end of the file there are zeros */
    if (one == NULL) abort();
    if (real_pread(fd, one->old, size, at) < 0) abort();
    one->at = at, one->size = size, one->file = fd, one->before = unsynced[file];
    unsynced[file] = one;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    int file = file_of(fd);
    if (file < 0) return real_pwrite(fd, data, size, at);
    if (goes_wrong(WRITE)) return errno = EIO, -1;
    if (goes_wrong(FULL)) return errno = ENOSPC, -1;
    if (file == MAIN && goes_wrong(CHECKPOINT)) return errno = EIO, -1;
    if (goes_wrong(SHORT)) size = (size + 1) / 2;
    pthread_mutex_lock(&lock);
    if (file != OTHER) remember(file, fd, size, at);
    if (goes_wrong(POWER_WRITE)) {
        real_pwrite(fd, data, size / 2, at);
        cut_power();
    }
    ssize_t written = real_pwrite(fd, data, size, at);
    pthread_mutex_unlock(&lock);
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    return pwrite64(fd, data, size, at);
}

ssize_t pread64(int fd, void *data, size_t size, off_t at) {
    if (control != NULL && control->fault == READ && file_of(fd) >= 0 && goes_wrong(READ))
        return errno = EIO, -1;
    return real_pread(fd, data, size, at);
}

ssize_t pread(int fd, void *data, size_t size, off_t at) { return pread64(fd, data, size, at); }

static int synced(int fd, int (*real)(int)) {
    int file = file_of(fd);
    if (file < 0) return real(fd);
    if (goes_wrong(SYNC)) return errno = EIO, -1;
    pthread_mutex_lock(&lock);
    if (goes_wrong(POWER_SYNC)) cut_power();
    int found = real(fd);
    while (!found && unsynced[file] != NULL) {
        struct done *one = unsynced[file];
        unsynced[file] = one->before;
        free(one);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

int fsync(int fd) { return synced(fd, real_fsync); }

int fdatasync(int fd) { return synced(fd, real_fdatasync); }

int clock_gettime(clockid_t clock, struct timespec *at) {
    int found = real_clock_gettime(clock, at);
    if (found || control == NULL || clock != CLOCK_REALTIME || !control->behind) return found;
    int64_t now = at->tv_sec * 1000000000LL + at->tv_nsec - control->behind;
    at->tv_sec = now / 1000000000LL, at->tv_nsec = now % 1000000000LL;
    return 0;
}
