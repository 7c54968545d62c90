/* Lets one write to the disk fail: loaded before a process by LD_PRELOAD, and told by a file that it shares.

   It counts the calls that change what lies below the folder FAILING_UNDER, from the moment at which it is armed, and
   lets that of one number fail. Nothing else is changed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct told {
    int64_t armed, at, error, count, failed;
};
static struct told *told;
static const char *under;

__attribute__((constructor)) static void begin(void) {
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    const char *file = getenv("FAILING_FILE");
    under = getenv("FAILING_UNDER");
    if (!file || !under) return;
    int descriptor = real(file, O_RDWR);
    if (descriptor < 0) return;
    void *shared = mmap(0, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (shared != MAP_FAILED) told = shared;
    close(descriptor);
}

static int counts(void) {
    int64_t number = __atomic_add_fetch(&told->count, 1, __ATOMIC_SEQ_CST);
    if (number != told->at) return 0;
    __atomic_add_fetch(&told->failed, 1, __ATOMIC_SEQ_CST);
    errno = (int)told->error;
    return 1;
}

static int path_fails(const char *path) {
    if (!told || !told->armed || !path || strncmp(path, under, strlen(under))) return 0;
    return counts();
}

static int fails(int descriptor) {
    char link[64], path[4096];
    if (!told || !told->armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return path_fails(path);
}

#define ON_DESCRIPTOR(type, name, parameters, arguments)            \
    type name parameters {                                          \
        static type(*real) parameters;                              \
        if (!real) real = dlsym(RTLD_NEXT, #name);                  \
        return fails(descriptor) ? (type)-1 : real arguments;       \
    }
#define ON_PATH(name, parameters, arguments)                        \
    int name parameters {                                           \
        static int(*real) parameters;                               \
        if (!real) real = dlsym(RTLD_NEXT, #name);                  \
        return path_fails(path) ? -1 : real arguments;              \
    }
#define ON_FALLOCATE(name, parameters)                              \
    int name parameters {                                           \
        static int(*real) parameters;                               \
        if (!real) real = dlsym(RTLD_NEXT, #name);                  \
        return fails(descriptor) ? errno : real(descriptor, from, size); \
    }
#define ON_OPEN(name, parameters, arguments)                        \
    int name parameters {                                           \
        static int(*real) parameters;                               \
        if (!real) real = dlsym(RTLD_NEXT, #name);                  \
        mode_t mode = 0;                                            \
        if (flags & O_CREAT) {                                      \
            va_list more;                                           \
            va_start(more, flags);                                  \
            mode = va_arg(more, mode_t);                            \
            va_end(more);                                           \
            if (path_fails(path)) return -1;                        \
        }                                                           \
        return real arguments;                                      \
    }

ON_DESCRIPTOR(ssize_t, write, (int descriptor, const void *data, size_t size), (descriptor, data, size))
ON_DESCRIPTOR(ssize_t, writev, (int descriptor, const struct iovec *data, int count), (descriptor, data, count))
ON_DESCRIPTOR(ssize_t, pwrite, (int descriptor, const void *data, size_t size, off_t at), (descriptor, data, size, at))
ON_DESCRIPTOR(ssize_t, pwrite64, (int descriptor, const void *data, size_t size, off64_t at),
              (descriptor, data, size, at))
ON_DESCRIPTOR(int, fsync, (int descriptor), (descriptor))
ON_DESCRIPTOR(int, fdatasync, (int descriptor), (descriptor))
ON_DESCRIPTOR(int, ftruncate, (int descriptor, off_t size), (descriptor, size))
ON_DESCRIPTOR(int, ftruncate64, (int descriptor, off64_t size), (descriptor, size))
ON_FALLOCATE(posix_fallocate, (int descriptor, off_t from, off_t size))
ON_FALLOCATE(posix_fallocate64, (int descriptor, off64_t from, off64_t size))
ON_PATH(rename, (const char *path, const char *to), (path, to))
ON_PATH(link, (const char *path, const char *to), (path, to))
ON_PATH(unlink, (const char *path), (path))
ON_PATH(mkdir, (const char *path, mode_t mode), (path, mode))
ON_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
ON_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
ON_OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
ON_OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
