/* A linear regression in C99: each peer has samples of its own, and all find the same weights.
 *
 *     cc -std=c99 examples/least_squares.c $(pkg-config --cflags --libs grapevine) -o least_squares
 *     grapevine launch -n 4 examples/run.toml -- ./least_squares [ALGORITHM]
 */
#include <grapevine/grapevine.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FEATURES 16
#define BATCH 32
#define RATE 0.1F

static uint64_t random_state;

/* Returns a random number, uniformly distributed from -1 to 1. */
static float draw(void) {
  random_state = random_state * 6364136223846793005U + 1442695040888963407U;
  return (float)(random_state >> 40) / 8388608.0F - 1.0F;
}

/* Seeds the random numbers with a text, which must differ between peers. */
static void seed_by(const char* text) {
  random_state = 88172645463325252U;
  for (; text != NULL && *text != 0; ++text) random_state = 31 * random_state + (unsigned char)*text;
}

static float true_weight(int k) { return -1.0F + 2.0F * (float)k / (FEATURES - 1); }

/* Returns the mean loss of a batch, and its gradient. */
static double gradient_at(const float* weights, float* gradient) {
  double loss = 0;
  int i, k;
  for (k = 0; k < FEATURES; ++k) gradient[k] = 0;
  for (i = 0; i < BATCH; ++i) {
    float inputs[FEATURES];
    float error = 0.1F * draw();
    for (k = 0; k < FEATURES; ++k) {
      inputs[k] = draw();
      error += inputs[k] * (weights[k] - true_weight(k));
    }
    for (k = 0; k < FEATURES; ++k) gradient[k] += inputs[k] * error / BATCH;
    loss += 0.5 * (double)error * (double)error / BATCH;
  }
  return loss;
}

int main(int argc, char** argv) {
  float weights[FEATURES] = {0};
  float gradient[FEATURES];
  char settings[128] = "";
  gv_tensor model = {0};
  gv_tensor slope;
  gv_options options = {0};
  gv_info info = {0};
  gv_peer* peer = NULL;
  gv_result result;
  float largest = 0;
  int k;

  if (gv_abi() != GV_ABI) return 2;
  seed_by(getenv("GRAPEVINE_PEER"));
  model.size = sizeof model;
  model.name = "weights";
  model.data = weights;
  model.elements = FEATURES;
  slope = model;
  slope.data = gradient;
  options.size = sizeof options;
  if (argc > 1) snprintf(settings, sizeof settings, "run.algorithm = '%s'", argv[1]);
  options.settings = settings;
  info.size = sizeof info;
  info.factor = 1;

  result = gv_join(&options, &model, 1, &peer);
  while (result == GV_OK) {
    double loss;
    do {
      loss = gradient_at(weights, gradient);
      result = gv_reduce(peer, &slope, 1, BATCH, loss, &info);
    } while (result == GV_OK && info.again);
    if (result != GV_OK) break;
    for (k = 0; k < FEATURES; ++k) weights[k] -= RATE * (float)info.factor * gradient[k];
    result = gv_step(peer, BATCH, loss, &info);
  }
  if (result != GV_OVER) {
    fprintf(stderr, "%s\n", gv_problem());
    gv_free(peer);
    return 1;
  }
  gv_free(peer);
  for (k = 0; k < FEATURES; ++k) {
    const float error = fabsf(weights[k] - true_weight(k));
    if (error > largest) largest = error;
  }
  printf("largest error of a weight: %.4f\n", (double)largest);
  return 0;
}
