/* A peer written in C99: its loop moves a model towards 1. With --mean it has no model and averages
 * arrays. With --sizes it prints the sizes of the structs, so that other languages can compare them. */
#include <stdio.h>
#include <string.h>

#include "grapevine.h"

#define ELEMENTS 64

static int fail(const char* where, gv_result result) {
  fprintf(stderr, "%s: result %d: %s\n", where, (int)result, gv_problem());
  return 1;
}

/* Passes the gradient alternately as a whole and in parts. The last part comes first. */
static gv_result reduce(gv_peer* peer, const gv_tensor* given, gv_info* info) {
  gv_result result;
  if (info->steps % 2 == 0) return gv_reduce(peer, given, 2, 1, 0.5, info);
  result = gv_reduce_begin(peer, &given[1], 1);
  if (result == GV_OK) result = gv_reduce_begin(peer, &given[0], 1);
  return result == GV_OK ? gv_reduce_end(peer, 1, 0.5, info) : result;
}

static int train(const char* config) {
  float model[ELEMENTS] = {0};
  float gradient[ELEMENTS];
  gv_tensor tensors[2] = {{0}, {0}};
  gv_options options = {0};
  gv_info info = {0};
  gv_peer* peer = NULL;
  gv_result result;
  int i;

  for (i = 0; i < 2; ++i) {
    tensors[i].size = sizeof tensors[i];
    tensors[i].name = i == 0 ? "front" : "back";
    tensors[i].data = model + i * (ELEMENTS / 2);
    tensors[i].elements = ELEMENTS / 2;
  }
  options.size = sizeof options;
  options.config = config;
  info.size = sizeof info;
  result = gv_join(&options, tensors, 2, &peer);
  for (i = 0; i < 2; ++i) tensors[i].data = gradient + i * (ELEMENTS / 2);
  while (result == GV_OK) {
    do {
      for (i = 0; i < ELEMENTS; ++i) gradient[i] = model[i] - 1.0F;
      result = reduce(peer, tensors, &info);
    } while (result == GV_OK && info.again);
    if (result != GV_OK) break;
    for (i = 0; i < ELEMENTS; ++i) model[i] -= 0.1F * (float)info.factor * gradient[i];
    result = gv_step(peer, 1, 0.5, &info);
  }
  if (result != GV_OVER) return fail("training", result);
  result = gv_leave(peer);
  if (result != GV_OK) return fail("gv_leave", result);
  gv_free(peer);
  if (model[0] < 0.99F || model[0] > 1.01F) {
    fprintf(stderr, "the model is at %g\n", (double)model[0]);
    return 1;
  }
  return 0;
}

/* Averages two arrays at once, and then another one. All peers contribute the same values. */
static int average(const char* config) {
  float x[ELEMENTS];
  double y[3] = {1.0, 2.0, 3.0};
  gv_tensor first = {0}, second = {0};
  gv_options options = {0};
  gv_info info = {0};
  gv_peer* peer = NULL;
  uint64_t calls[2] = {0, 0};
  gv_result result;
  int i;

  for (i = 0; i < ELEMENTS; ++i) x[i] = (float)i;
  first.size = second.size = sizeof first;
  first.data = x;
  first.elements = ELEMENTS;
  second.data = y;
  second.elements = 3;
  second.type = GV_F64;
  options.size = sizeof options;
  options.config = config;
  info.size = sizeof info;
  result = gv_join_collective(&options, &peer);
  if (result == GV_OK) result = gv_mean_begin(peer, &first, 1.0, &calls[0]);
  if (result == GV_OK) result = gv_mean_begin(peer, &second, 2.0, &calls[1]);
  for (i = 0; i < 2 && result == GV_OK; ++i) result = gv_mean_end(peer, calls[i], -1, &info);
  if (result != GV_OK) return fail("gv_mean_end", result);
  if (gv_mean_end(peer, calls[0], 0, NULL) != GV_WRONG_ARGUMENT) return 1;
  result = gv_mean(peer, &first, 0.5, &info);
  if (result != GV_OK) return fail("gv_mean", result);
  if (info.steps != 3 || info.samples == 0) return 1;
  for (i = 0; i < ELEMENTS; ++i) {
    if (x[i] != (float)i) return 1;
  }
  if (y[0] != 1.0 || y[1] != 2.0 || y[2] != 3.0) return 1;
  result = gv_leave(peer);
  gv_free(peer);
  return result == GV_OK ? 0 : fail("gv_leave", result);
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--sizes") == 0) {
    printf("%u %u %u\n", (unsigned)sizeof(gv_tensor), (unsigned)sizeof(gv_options),
           (unsigned)sizeof(gv_info));
    return 0;
  }
  if (argc == 3 && strcmp(argv[1], "--mean") == 0) return average(argv[2]);
  return argc == 2 && gv_abi() == GV_ABI ? train(argv[1]) : 2;
}
