/* Preloaded, makes one system call fail: the VN_FAULT_AT-th call of VN_FAULT_CALL fails with errno
 * VN_FAULT_ERRNO, and with VN_FAULT_REST=1 all calls after it as well. Writes and reads count only for files,
 * not for pipes and terminals, so that messages still reach whoever started the program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long count;

static int must_fail(const char* call) {
  static _Thread_local int busy;
  const char* wanted = getenv("VN_FAULT_CALL");
  if (busy || wanted == NULL || strcmp(wanted, call) != 0) return 0;
  busy = 1;
  const char* at = getenv("VN_FAULT_AT");
  const char* error = getenv("VN_FAULT_ERRNO");
  const char* rest = getenv("VN_FAULT_REST");
  const long number = atomic_fetch_add(&count, 1) + 1, first = at != NULL ? atol(at) : 1;
  const int fails = number == first || (number > first && rest != NULL && rest[0] == '1');
  if (fails) errno = error != NULL ? atoi(error) : EIO;
  busy = 0;
  return fails;
}

static int is_file(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(list, int) : 0;
  va_end(list);
  if (must_fail((flags & O_CREAT) != 0 ? "create" : "open")) return -1;
  return NEXT(open)(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  if (must_fail(mode[0] == 'r' && mode[1] != '+' ? "open" : "create")) return NULL;
  return NEXT(fopen)(path, mode);
}
ssize_t read(int fd, void* buffer, size_t size) {
  if (is_file(fd) && must_fail("read")) return -1;
  return NEXT(read)(fd, buffer, size);
}
ssize_t write(int fd, const void* buffer, size_t size) {
  if (is_file(fd) && must_fail("write")) return -1;
  return NEXT(write)(fd, buffer, size);
}
ssize_t pwrite(int fd, const void* buffer, size_t size, off_t at) {
  if (is_file(fd) && must_fail("write")) return -1;
  return NEXT(pwrite)(fd, buffer, size, at);
}
size_t fwrite(const void* buffer, size_t size, size_t number, FILE* stream) {
  if (is_file(fileno(stream)) && must_fail("write")) return 0;
  return NEXT(fwrite)(buffer, size, number, stream);
}
int rename(const char* from, const char* to) { return must_fail("rename") ? -1 : NEXT(rename)(from, to); }
int fsync(int fd) { return must_fail("fsync") ? -1 : NEXT(fsync)(fd); }
int fstat(int fd, struct stat* status) { return must_fail("fstat") ? -1 : NEXT(fstat)(fd, status); }
int mkdir(const char* path, mode_t mode) { return must_fail("mkdir") ? -1 : NEXT(mkdir)(path, mode); }
void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t at) {
  if (fd >= 0 && must_fail("mmap")) return MAP_FAILED;
  return NEXT(mmap)(address, size, protection, flags, fd, at);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  if (must_fail("pthread_create")) return errno;
  return NEXT(pthread_create)(thread, attributes, start, argument);
}
