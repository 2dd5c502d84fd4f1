/* Steps one process's clock: preloaded, it adds to the wall clock what the file named by CLOCK_OFFSET_FILE says.
 *
 * CLOCK_REALTIME, gettimeofday and time are moved; steady clocks are left alone. Waits until a moment of the wall clock
 * end when the moved clock gets there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const long long SECOND_NS = 1000000000LL;
static const volatile long long *offset_ns;

__attribute__((constructor)) static void open_offset(void) {
  const char *path = getenv("CLOCK_OFFSET_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) offset_ns = mapped;
}

static long long offset(void) { return offset_ns ? *offset_ns : 0; }

static struct timespec moved(const struct timespec *moment, long long by_ns) {
  long long at_ns = moment->tv_sec * SECOND_NS + moment->tv_nsec + by_ns;
  struct timespec result = {.tv_sec = at_ns / SECOND_NS, .tv_nsec = at_ns % SECOND_NS};
  return result;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int code = real(clock, now);
  if (!code && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *now = moved(now, offset());
  return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  int code = clock_gettime(CLOCK_REALTIME, &precise);
  (void)zone;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return code;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

/* A steady clock counts from the start of the machine, the wall clock from 1970. */
static struct timespec unmoved(const struct timespec *until) {
  return until->tv_sec > 1000000000 ? moved(until, -offset()) : *until;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  /* x86-64 has an older one of the same name, with other condition variables. */
  if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  struct timespec moment = unmoved(until);
  return real(condition, mutex, &moment);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
  static int (*real)(pthread_mutex_t *, const struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
  struct timespec moment = unmoved(until);
  return real(mutex, &moment);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
  static int (*real)(sem_t *, const struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "sem_timedwait");
  struct timespec moment = unmoved(until);
  return real(semaphore, &moment);
}
