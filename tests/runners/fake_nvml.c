/* A library that answers as NVML's reference says, for the real pynvml to load.
 *
 * It is no driver: what it tells is read, at each call, from the file that FAKE_NVML
 * names, a line "name value" each. A name that is missing there is not supported; one
 * with a number behind it is of that GPU alone, counted from 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4 };
enum { NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
typedef unsigned long long u64;

static int told(const char *wanted, char *value, unsigned size) {
    char name[64], rest[512], line[600];
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        rest[0] = 0;
        if (sscanf(line, "%63s %511[^\n]", name, rest) >= 1 && !strcmp(name, wanted)) {
            snprintf(value, size, "%s", rest);
            found = 1;
        }
    }
    if (file) fclose(file);
    return found;
}

static double number(const char *name, double otherwise) {
    char value[64];
    return told(name, value, sizeof value) ? atof(value) : otherwise;
}

static double own(const char *name, void *gpu, double otherwise) {
    char numbered[64];
    snprintf(numbered, sizeof numbered, "%s%llu", name, (u64)gpu);
    return number(numbered, number(name, otherwise));
}

/* What every call does first: it takes its time, or never comes back. */
static void wait_as_told(void) {
    while (number("hangs", 0)) usleep(50000);
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    usleep((unsigned)(1e6 * number("init_s", 0)));
    wait_as_told();
    return (int)number("init_error", 0);
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)number("count", 1);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) {
    *gpu = (void *)(u64)(index + 1);
    return index < number("forbidden", 0) ? NO_PERMISSION : SUCCESS;
}

int nvmlDeviceGetMigMode(void *gpu, unsigned *now, unsigned *pending) {
    (void)gpu;
    *now = *pending = (unsigned)number("sliced", 0);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *gpu, char *uuid, unsigned size) {
    snprintf(uuid, size, "GPU-%llu", (u64)gpu);
    return SUCCESS;
}

int nvmlDeviceGetName(void *gpu, char *name, unsigned size) {
    (void)gpu;
    return told("name", name, size) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    return told("driver", version, size) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetCudaComputeCapability(void *gpu, int *major, int *minor) {
    (void)gpu;
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

static u64 mib(const char *name, void *gpu) {
    return (u64)own(name, gpu, 0) << 20;
}

struct memory { u64 total, free, used; };
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(void *gpu, struct memory *told) {
    told->total = mib("total_mib", gpu);
    told->used = mib("used_mib", gpu) + mib("reserved_mib", gpu);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *gpu, struct memory_v2 *told) {
    wait_as_told();
    told->total = mib("total_mib", gpu);
    told->used = mib("used_mib", gpu);
    told->reserved = mib("reserved_mib", gpu);
    return SUCCESS;
}

static int reading(const char *name, void *gpu, unsigned *value) {
    double found = own(name, gpu, -1);
    if (found < 0) return NOT_SUPPORTED;
    *value = (unsigned)found;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *gpu, unsigned sensor, unsigned *celsius) {
    (void)sensor;
    return reading("celsius", gpu, celsius);
}

int nvmlDeviceGetClockInfo(void *gpu, unsigned clock, unsigned *mhz) {
    (void)clock;
    return reading("mhz", gpu, mhz);
}

int nvmlDeviceGetUtilizationRates(void *gpu, unsigned *rates) {
    rates[1] = 0;
    return reading("use", gpu, rates);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, u64 *bits) {
    unsigned value = 0;
    int code = reading("reasons", gpu, &value);
    *bits = value;
    return code;
}

/* A GPU that draws the same watts all the time: mJ since some moment. */
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, u64 *millijoules) {
    struct timespec now;
    double watts = number("counter_watts", -1);
    if (watts < 0) return NOT_SUPPORTED;
    clock_gettime(CLOCK_REALTIME, &now);
    *millijoules = (u64)(watts * (1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec));
    return SUCCESS;
}

struct process { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; };

/* "apps 12:3072 13:-": a process each with its MiB, or a dash where they are hidden. */
int nvmlDeviceGetComputeRunningProcesses_v3(
    void *gpu, unsigned *count, struct process *found) {
    char text[512], *next = text, *word, *rest;
    unsigned room = *count, every = 0;
    (void)gpu;
    if (!told("apps", text, sizeof text)) return NOT_SUPPORTED;
    while ((word = strtok_r(next, " ", &rest))) {
        char *size = strchr(word, ':');
        next = NULL;
        if (found && every < room) {
            found[every].pid = (unsigned)atoi(word);
            found[every].used = size[1] == '-' ? ~0ull : (u64)atoll(size + 1) << 20;
        }
        every++;
    }
    *count = every;
    return every > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned size) {
    if (pid > 999) return NOT_FOUND;
    snprintf(name, size, "program-%u", pid);
    return SUCCESS;
}
