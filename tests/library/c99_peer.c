/* A peer written in C99: its loop moves a model towards 1. With --sizes it prints the sizes of the
 * structs, so that other languages can compare them. */
#include <stdio.h>
#include <string.h>

#include "grapevine.h"

#define ELEMENTS 64

static int fail(const char* where, gv_result result) {
  fprintf(stderr, "%s: result %d: %s\n", where, (int)result, gv_problem());
  return 1;
}

static int train(const char* config) {
  float model[ELEMENTS] = {0};
  float gradient[ELEMENTS];
  gv_tensor tensor = {0};
  gv_options options = {0};
  gv_info info = {0};
  gv_peer* peer = NULL;
  gv_result result;
  int i;

  tensor.size = sizeof tensor;
  tensor.name = "model";
  tensor.data = model;
  tensor.elements = ELEMENTS;
  options.size = sizeof options;
  options.config = config;
  info.size = sizeof info;
  result = gv_join(&options, &tensor, 1, &peer);
  while (result == GV_OK) {
    gv_tensor given = tensor;
    given.data = gradient;
    do {
      for (i = 0; i < ELEMENTS; ++i) gradient[i] = model[i] - 1.0F;
      result = gv_reduce(peer, &given, 1, 1, 0.5, &info);
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

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--sizes") == 0) {
    printf("%u %u %u\n", (unsigned)sizeof(gv_tensor), (unsigned)sizeof(gv_options),
           (unsigned)sizeof(gv_info));
    return 0;
  }
  return argc == 2 && gv_abi() == GV_ABI ? train(argv[1]) : 2;
}
