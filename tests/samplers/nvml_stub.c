/* A stand-in for libnvidia-ml.so.1, so that the NVML code runs where there is no GPU.
 *
 * Leave a function out with -DNO_<name> (an old driver). At run time, by environment:
 *   STUB_GPUS=2                     number of GPUs (default 1)
 *   STUB_ERRORS=nvmlX=3,nvmlY=4@1   functions that return a code (@1: of GPU 1 only)
 *   STUB_LOST=1:4                   GPU 1 is lost after 4 utilisation calls
 *   STUB_GPM=1                      GPUs have the Hopper counters
 *   STUB_THROTTLE=0x44              clock event bits
 *   STUB_CC=9.0  STUB_DRIVER=550.54.14  STUB_CUDA=12040  STUB_NAME=...
 *   STUB_PROCESSES=0                that compute on each GPU (default 2, at most 2)
 *   STUB_ORDER=2,0,1                NVML's GPU 0 is card 2, by its UUID (default 0,1,2,...)
 *   STUB_NAME=A;B                   names of GPU 0 and 1; the last one is that of all others
 *   STUB_COMPUTE_MODE=3             exclusive to one process; 2 none at all (default 0)
 *   STUB_WAVE=0.4:0.5:1.0           utilisation: kernels run for half of each 0.4 s; what is told
 *                                   is the mean of the last whole window of 1 s
 *   STUB_LEGS=FOLDER                GPU 0 holds STUB_LEG_MIB=2048 for each living process that
 *                                   has a file there, named by its number (tests/kit/siblings.py)
 *   STUB_ECC=3  STUB_MIG=1   STUB_APPLICATION_CLOCK=1410
 *                                   errors not corrected, and modes; "not supported" if not set
 *   STUB_CALLS=FILE                 append the name of every function called
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { unsigned index, calls; } gpu_t;
typedef struct { unsigned long serial; } snapshot_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_t;
typedef struct { unsigned version, supported; } gpm_support_t;
typedef struct { char *short_name, *long_name, *unit; } metric_info_t;
typedef struct { unsigned id, result; double value; metric_info_t info; } metric_t;
typedef struct {
  unsigned version, count;
  snapshot_t *before, *after;
  metric_t metrics[];
} metrics_t;

#define LOST 15
#define NOT_SUPPORTED 3
static gpu_t gpus[64];
static int snapshots;

static const char *setting(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value ? value : otherwise;
}

static void log_call(const char *name) {
  const char *path = getenv("STUB_CALLS");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (file) { fprintf(file, "%s\n", name); fclose(file); }
}

static int lost(const gpu_t *gpu) {
  unsigned index, calls;
  return gpu && sscanf(setting("STUB_LOST", ""), "%u:%u", &index, &calls) == 2 &&
         gpu->index == index && gpu->calls > calls;
}

static int outcome(const char *name, const gpu_t *gpu) {
  log_call(name);
  if (lost(gpu)) return LOST;
  const char *found = setting("STUB_ERRORS", "");
  size_t length = strlen(name);
  while ((found = strstr(found, name))) {
    if (found[length] == '=') {
      char *end;
      int code = (int)strtol(found + length + 1, &end, 10);
      if (*end != '@' || (gpu && (unsigned)atoi(end + 1) == gpu->index)) return code;
    }
    found += length;
  }
  return 0;
}

#define ANSWER(gpu, ...) \
  do { int code = outcome(__func__, gpu); if (code) return code; __VA_ARGS__; return 0; } while (0)

int nvmlInitWithFlags(unsigned flags) { (void)flags; ANSWER(NULL, ); }
int nvmlInit_v2(void) { ANSWER(NULL, ); }
int nvmlShutdown(void) { ANSWER(NULL, log_call(snapshots ? "leaked snapshots" : "clean")); }
const char *nvmlErrorString(int code) { (void)code; return "an error of the stub"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
  ANSWER(NULL, snprintf(text, size, "%s", setting("STUB_DRIVER", "550.54.14")));
}
int nvmlSystemGetCudaDriverVersion(int *version) {
  ANSWER(NULL, *version = atoi(setting("STUB_CUDA", "12040")));
}
int nvmlDeviceGetCount_v2(unsigned *count) {
  ANSWER(NULL, *count = (unsigned)atoi(setting("STUB_GPUS", "1")));
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t **gpu) {
  gpus[index].index = index;
  ANSWER(&gpus[index], *gpu = &gpus[index]);
}
/* The part of a list that stands at `place`; the last one where there are not so many. */
static const char *item(const char *list, char mark, unsigned place, char *into, unsigned size) {
  const char *at = list, *next;
  while (place-- && (next = strchr(at, mark))) at = next + 1;
  snprintf(into, size, "%s", at);
  char *end = strchr(into, mark);
  if (end) *end = 0;
  return into;
}
int nvmlDeviceGetName(gpu_t *gpu, char *text, unsigned size) {
  char name[96];
  item(setting("STUB_NAME", "NVIDIA Stub"), ';', gpu->index, name, sizeof name);
  ANSWER(gpu, snprintf(text, size, "%s", name));
}
#ifndef NO_nvmlDeviceGetUUID
int nvmlDeviceGetUUID(gpu_t *gpu, char *text, unsigned size) {
  char part[16], own[16];
  snprintf(own, sizeof own, "%u", gpu->index);
  const char *order = getenv("STUB_ORDER");
  unsigned card = (unsigned)atoi(order ? item(order, ',', gpu->index, part, sizeof part) : own);
  ANSWER(gpu, snprintf(text, size, "GPU-%08x-0000-0000-0000-000000000000", card));
}
#endif
/* The processes with a file in STUB_LEGS that have not ended. */
static unsigned living(unsigned *pids, unsigned most) {
  unsigned count = 0;
  const char *folder = getenv("STUB_LEGS");
  DIR *entries = folder ? opendir(folder) : NULL;
  for (struct dirent *one; entries && (one = readdir(entries));) {
    unsigned pid = (unsigned)atoi(one->d_name);
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = pid ? fopen(path, "r") : NULL;
    if (!file) continue;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state != 'Z' && state != 'X') {
      if (count < most) pids[count] = pid;
      count++;
    }
    fclose(file);
  }
  if (entries) closedir(entries);
  return count < most ? count : most;
}
static unsigned long long held(const gpu_t *gpu) {
  unsigned pids[64], count = gpu->index ? 0 : living(pids, 64);
  return ((unsigned long long)count * (unsigned)atoi(setting("STUB_LEG_MIB", "2048"))) << 20;
}
int nvmlDeviceGetMemoryInfo(gpu_t *gpu, memory_t *memory) {
  ANSWER(gpu, memory->total = 24ULL << 30;
         memory->used = ((1ULL + gpu->index) << 30) + held(gpu);
         memory->free = memory->total - memory->used);
}
#ifndef NO_nvmlDeviceGetComputeMode
int nvmlDeviceGetComputeMode(gpu_t *gpu, unsigned *mode) {
  ANSWER(gpu, *mode = (unsigned)atoi(setting("STUB_COMPUTE_MODE", "0")));
}
#endif
int nvmlDeviceGetCudaComputeCapability(gpu_t *gpu, int *major, int *minor) {
  ANSWER(gpu, sscanf(setting("STUB_CC", "8.6"), "%d.%d", major, minor));
}
#ifndef NO_nvmlDeviceGetEnforcedPowerLimit
int nvmlDeviceGetEnforcedPowerLimit(gpu_t *gpu, unsigned *mw) { ANSWER(gpu, *mw = 300000); }
#endif
int nvmlDeviceGetMaxClockInfo(gpu_t *gpu, int type, unsigned *mhz) {
  ANSWER(gpu, *mhz = type == 1 ? 1710 : 1);
}
/* For how long kernels ran until `t`, where they run for a share of each period. */
static double ran(double t, double period, double share) {
  double whole = floor(t / period);
  return whole * share * period + fmin(t - whole * period, share * period);
}
static unsigned windowed(unsigned otherwise) {
  double period, share, window;
  if (sscanf(setting("STUB_WAVE", ""), "%lf:%lf:%lf", &period, &share, &window) != 3)
    return otherwise;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double until = floor((now.tv_sec + now.tv_nsec / 1e9) / window) * window;
  double busy = ran(until, period, share) - ran(until - window, period, share);
  return (unsigned)(100 * busy / window + 0.5);
}
int nvmlDeviceGetUtilizationRates(gpu_t *gpu, utilization_t *use) {
  gpu->calls++;
  if (atoi(setting("STUB_MIG", "0"))) return NOT_SUPPORTED;
  ANSWER(gpu, use->gpu = windowed((10 * gpu->calls) % 101); use->memory = 5);
}
#ifndef NO_nvmlDeviceGetPowerUsage
int nvmlDeviceGetPowerUsage(gpu_t *gpu, unsigned *mw) {
  ANSWER(gpu, *mw = 150500 + 1000 * gpu->index);
}
#endif
int nvmlDeviceGetClockInfo(gpu_t *gpu, int type, unsigned *mhz) {
  ANSWER(gpu, *mhz = type == 1 ? 1410 : 1);
}
static int optional(gpu_t *gpu, const char *name, const char *function, unsigned *value) {
  int code = outcome(function, gpu);
  if (code) return code;
  if (!getenv(name)) return 3;
  *value = (unsigned)atoi(getenv(name));
  return 0;
}
int nvmlDeviceGetMigMode(gpu_t *gpu, unsigned *current, unsigned *pending) {
  *pending = 1; /* asked for, and there after the next reset */
  return optional(gpu, "STUB_MIG", __func__, current);
}
int nvmlDeviceGetApplicationsClock(gpu_t *gpu, int type, unsigned *mhz) {
  return type == 1 ? optional(gpu, "STUB_APPLICATION_CLOCK", __func__, mhz) : 2;
}
int nvmlDeviceGetTotalEccErrors(gpu_t *gpu, int type, int counter, unsigned long long *errors) {
  unsigned found = 0;
  if (type != 1 || counter != 0) return 2; /* uncorrected, volatile */
  int code = optional(gpu, "STUB_ECC", __func__, &found);
  *errors = found;
  return code;
}
#ifndef NO_nvmlDeviceGetCurrentClocksEventReasons
int nvmlDeviceGetCurrentClocksEventReasons(gpu_t *gpu, unsigned long long *bits) {
  ANSWER(gpu, *bits = strtoull(setting("STUB_THROTTLE", "0"), NULL, 0));
}
#endif
int nvmlDeviceGetCurrentClocksThrottleReasons(gpu_t *gpu, unsigned long long *bits) {
  ANSWER(gpu, *bits = strtoull(setting("STUB_THROTTLE", "0"), NULL, 0));
}
static int processes(gpu_t *gpu, unsigned *count, process_t *list, const char *name) {
  int code = outcome(name, gpu);
  if (code) return code;
  unsigned pids[64] = {11, 12}, there = (unsigned)atoi(setting("STUB_PROCESSES", "2"));
  if (getenv("STUB_LEGS")) there = gpu->index ? 0 : living(pids, 64);
  if (there && (!list || *count < there)) { *count = there; return 7; } /* insufficient size */
  for (unsigned i = 0; i < there && i < 64; i++) {
    memset(&list[i], 0, sizeof *list);
    list[i].pid = pids[i];
    list[i].used = (unsigned long long)(unsigned)atoi(setting("STUB_LEG_MIB", "2048")) << 20;
  }
  *count = there;
  return 0;
}
#ifndef NO_nvmlDeviceGetComputeRunningProcesses_v3
int nvmlDeviceGetComputeRunningProcesses_v3(gpu_t *gpu, unsigned *count, process_t *list) {
  return processes(gpu, count, list, __func__);
}
#endif
int nvmlDeviceGetComputeRunningProcesses_v2(gpu_t *gpu, unsigned *count, process_t *list) {
  return processes(gpu, count, list, __func__);
}
#ifndef NO_GPM
static unsigned long serial;
int nvmlGpmQueryDeviceSupport(gpu_t *gpu, gpm_support_t *support) {
  ANSWER(gpu, support->supported = (unsigned)atoi(setting("STUB_GPM", "0")));
}
int nvmlGpmSampleAlloc(snapshot_t **snapshot) {
  ANSWER(NULL, *snapshot = calloc(1, sizeof **snapshot); snapshots++);
}
int nvmlGpmSampleFree(snapshot_t *snapshot) { ANSWER(NULL, free(snapshot); snapshots--); }
int nvmlGpmSampleGet(gpu_t *gpu, snapshot_t *snapshot) {
  ANSWER(gpu, snapshot->serial = ++serial);
}
int nvmlGpmMetricsGet(metrics_t *request) {
  int code = outcome(__func__, NULL);
  if (code) return code;
  if (request->version != 1 || request->after->serial <= request->before->serial) return 2;
  for (unsigned i = 0; i < request->count; i++) {
    metric_t *metric = &request->metrics[i];
    metric->result = 0;
    switch (metric->id) {
      case 2: metric->value = 80.0; break;  /* SMs */
      case 5: metric->value = 25.0; break;  /* tensor cores */
      case 10: metric->result = 3; break;   /* memory: not supported */
      default: metric->result = 2;
    }
  }
  return 0;
}
#endif
