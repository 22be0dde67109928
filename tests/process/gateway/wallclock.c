/* Preloaded into a process: its wall clock, and no other, is off by what the file named in
 * WALLCLOCK_OFFSET says in seconds (a native int64), from one moment to the next. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("WALLCLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file >= 0) {
        void *at = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
        offset = at == MAP_FAILED ? NULL : at;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    int result = real_clock_gettime(clock, ts);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ts->tv_sec += *offset;
    return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    (void)zone;
    struct timespec ts;
    int result = clock_gettime(CLOCK_REALTIME, &ts);
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (out)
        *out = ts.tv_sec;
    return ts.tv_sec;
}
