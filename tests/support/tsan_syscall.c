/*
 * For builds with ThreadSanitizer, which sees close() but not the bare system call by which libuv closes: a descriptor of the
 * same number, which another thread opens later, would look like one that two threads use.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

static long (*the_next)(long, long, long, long, long, long, long);

__attribute__((constructor)) static void find_next(void)
{
	*(void **)&the_next = dlsym(RTLD_NEXT, "syscall");
}

long syscall(long number, ...)
{
	long args[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++) {
		args[i] = va_arg(list, long);
	}
	va_end(list);
	if (number == SYS_close) {
		return close((int)args[0]);
	}
	return the_next(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
