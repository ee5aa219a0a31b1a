/*
 * pause is the first process of a pod: it holds the pod's namespaces open,
 * reaps what is orphaned in a shared process namespace, and ends when it is
 * told to. It needs no C library, so that it takes two pages of memory.
 */

#if defined(__x86_64__)
#define SYS_wait4 61
#define SYS_exit_group 231
#define SYS_rt_sigprocmask 14
#define SYS_rt_sigtimedwait 128
#elif defined(__aarch64__)
#define SYS_wait4 260
#define SYS_exit_group 94
#define SYS_rt_sigprocmask 135
#define SYS_rt_sigtimedwait 137
#else
#error "pause knows the system calls of x86-64 and arm64"
#endif

#define SIGINT 2
#define SIGTERM 15
#define SIGCHLD 17
#define SIG_BLOCK 0
#define WNOHANG 1
#define BIT(signal) (1UL << ((signal) - 1))

static long call(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3)
			 : "memory");
	return x0;
#endif
}

void _start(void)
{
	/* Blocked, they are waited for instead of handled: the first process
	 * of a namespace would not get them otherwise. */
	const unsigned long wanted = BIT(SIGINT) | BIT(SIGTERM) | BIT(SIGCHLD);
	long got;

	call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&wanted, 0, sizeof(wanted));
	for (;;) {
		got = call(SYS_rt_sigtimedwait, (long)&wanted, 0, 0, sizeof(wanted));
		if (got == SIGINT || got == SIGTERM)
			call(SYS_exit_group, 0, 0, 0, 0);
		while (call(SYS_wait4, -1, 0, WNOHANG, 0) > 0)
			;
	}
}
