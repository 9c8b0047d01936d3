/*
 * For builds with ThreadSanitizer, which sees close() but not the bare system call by which libuv closes: a descriptor of the
 * same number, which another thread opens later, would look like one that two threads use.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

/* close() for ThreadSanitizer alone: what else stands in front of it (slow_disk.c) calls us. */
int __interceptor_close(int fd);

/* Libraries that are loaded before us call it, too: then nothing is ready yet. */
__attribute__((no_sanitize("thread"))) long syscall(long number, ...)
{
	static long (*next)(long, long, long, long, long, long, long);
	long args[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++) {
		args[i] = va_arg(list, long);
	}
	va_end(list);
	if (number == SYS_close) {
		return __interceptor_close((int)args[0]);
	}
	if (!next) {
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	}
	return next(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
