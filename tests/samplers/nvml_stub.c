/* A stand-in for libnvidia-ml.so.1, so that the NVML code runs where there is no GPU.
 *
 * Leave a function out with -DNO_<name> (an old driver). At run time, by environment:
 *   STUB_GPUS=2                     number of GPUs (default 1)
 *   STUB_ERRORS=nvmlX=3,nvmlY=4@1   functions that return a code (@1: of GPU 1 only)
 *   STUB_LOST=1:4                   GPU 1 is lost after 4 utilisation calls
 *   STUB_GPM=1                      GPUs have the Hopper counters
 *   STUB_THROTTLE=0x44              clock event bits
 *   STUB_CC=9.0  STUB_DRIVER=550.54.14  STUB_CUDA=12040  STUB_NAME=...
 *   STUB_CALLS=FILE                 append the name of every function called
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
#ifndef NO_nvmlSystemGetCudaDriverVersion_v2
int nvmlSystemGetCudaDriverVersion_v2(int *version) {
  ANSWER(NULL, *version = atoi(setting("STUB_CUDA", "12040")));
}
#endif
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
int nvmlDeviceGetName(gpu_t *gpu, char *text, unsigned size) {
  ANSWER(gpu, snprintf(text, size, "%s", setting("STUB_NAME", "NVIDIA Stub")));
}
int nvmlDeviceGetMemoryInfo(gpu_t *gpu, memory_t *memory) {
  ANSWER(gpu, memory->total = 24ULL << 30; memory->used = (1ULL + gpu->index) << 30;
         memory->free = memory->total - memory->used);
}
int nvmlDeviceGetCudaComputeCapability(gpu_t *gpu, int *major, int *minor) {
  ANSWER(gpu, sscanf(setting("STUB_CC", "8.6"), "%d.%d", major, minor));
}
#ifndef NO_nvmlDeviceGetEnforcedPowerLimit
int nvmlDeviceGetEnforcedPowerLimit(gpu_t *gpu, unsigned *mw) { ANSWER(gpu, *mw = 300000); }
#endif
int nvmlDeviceGetMaxClockInfo(gpu_t *gpu, int type, unsigned *mhz) {
  ANSWER(gpu, *mhz = type == 1 ? 1710 : 1);
}
int nvmlDeviceGetMaxPcieLinkGeneration(gpu_t *gpu, unsigned *n) { ANSWER(gpu, *n = 4); }
int nvmlDeviceGetMaxPcieLinkWidth(gpu_t *gpu, unsigned *n) { ANSWER(gpu, *n = 16); }
int nvmlDeviceGetUtilizationRates(gpu_t *gpu, utilization_t *use) {
  gpu->calls++;
  ANSWER(gpu, use->gpu = (10 * gpu->calls) % 101; use->memory = 5);
}
#ifndef NO_nvmlDeviceGetPowerUsage
int nvmlDeviceGetPowerUsage(gpu_t *gpu, unsigned *mw) {
  ANSWER(gpu, *mw = 150500 + 1000 * gpu->index);
}
#endif
int nvmlDeviceGetClockInfo(gpu_t *gpu, int type, unsigned *mhz) {
  ANSWER(gpu, *mhz = type == 1 ? 1410 : 1);
}
#ifndef NO_nvmlDeviceGetTemperature
int nvmlDeviceGetTemperature(gpu_t *gpu, int sensor, unsigned *c) {
  ANSWER(gpu, *c = sensor == 0 ? 61 : 1);
}
#endif
int nvmlDeviceGetPcieThroughput(gpu_t *gpu, int counter, unsigned *kb) {
  ANSWER(gpu, *kb = counter == 1 ? 2000 : 1000); /* 1 counts what the GPU receives */
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
  if (!list || *count < 2) { *count = 2; return 7; } /* insufficient size */
  memset(list, 0, 2 * sizeof *list);
  list[0].pid = 11; list[1].pid = 12; *count = 2;
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
      case 20: metric->value = 10.0; break; /* PCIe sent, MiB/s */
      case 21: metric->value = 0.0 / 0.0; break;
      default: metric->result = 2;
    }
  }
  return 0;
}
#endif
