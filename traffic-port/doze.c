/* The least cost of sleeping: the processor time of a thread that sleeps so long again and
 * again, and does nothing else. The reference for an idle worker.
 *
 * doze CPU MICROSECONDS SECONDS
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	struct timespec nap = { 0 };
	cpu_set_t cpus;
	double began, ran, length;
	unsigned long naps = 0;

	if (argc != 4) {
		fprintf(stderr, "doze: give CPU, microseconds of each sleep, seconds in all\n");
		return 2;
	}
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	nap.tv_nsec = atol(argv[2]) * 1000;
	length = atof(argv[3]);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0 || prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0) {
		perror("doze");
		return 2;
	}
	began = seconds(CLOCK_MONOTONIC);
	ran = seconds(CLOCK_PROCESS_CPUTIME_ID);
	while (seconds(CLOCK_MONOTONIC) - began < length) {
		nanosleep(&nap, NULL);
		naps++;
	}
	length = seconds(CLOCK_MONOTONIC) - began;
	/* Of a processor; microseconds from one sleep to the next. */
	printf("%.5f %.2f\n", (seconds(CLOCK_PROCESS_CPUTIME_ID) - ran) / length, length / (double)naps * 1e6);
	return 0;
}
