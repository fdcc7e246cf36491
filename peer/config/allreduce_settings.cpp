// The keys of mode `allreduce`: how gradients are summed, and how many steps lie between sums.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "peer/config/setting_builders.hpp"

namespace gv::settings {
namespace {

/// Adds the keys that determine how gradients are summed and which of their values are sent.
void append_sums(const Keys& allreduce) {
  std::vector<std::pair<std::string, std::optional<ReduceAlgorithm>>> algorithms{{"auto", {}}};
  for (const ReduceAlgorithm algorithm : reduce_algorithms()) {
    algorithms.emplace_back(to_string(algorithm), algorithm);
  }
  allreduce.choice(
      "algorithm", GV_FIELD(allreduce.algorithm), std::move(algorithms),
      "how gradients are summed; auto: the algorithm that is predicted to be the fastest");
  allreduce.choice("codec", GV_FIELD(allreduce.compression.codec), named_codecs(summable_codecs),
                   "encoding of numbers: 4, 2 or 2 bytes each, or 8 or 4 bits, rounded at random; "
                   "all but identity only with the ring");
  allreduce.add("top_k_per_512", GV_FIELD(allreduce.compression.top_k_per_512), {0, 511},
                "of every 512 numbers only this many are sent, the largest, and the others are "
                "kept for the next step; 0 = all are sent; other values only with the ring");
  allreduce.add("rank", GV_FIELD(allreduce.compression.rank), {0, 256},
                "matrices of gradients are sent as factors of this rank, and the error is kept for "
                "the next step; 0 = off; not with top_k_per_512");
  allreduce.add("sufficient_factors", GV_FIELD(allreduce.compression.sufficient_factors),
                "gradients of dense layers are sent as the inputs and the deltas whose product "
                "they are, if these have no more numbers than the gradient; not with codec, "
                "top_k_per_512, rank or a period above 1");
  allreduce.add("one_bit", GV_FIELD(allreduce.compression.one_bit),
                "gradients are sent as one bit for each number and two means for every 512, and "
                "the error is kept for the next step; with more than 28 peers they are sent whole; "
                "not with codec, top_k_per_512, rank or sufficient_factors");
  allreduce.add(
      "random_k_per_512", GV_FIELD(allreduce.compression.random_k_per_512), {0, 511},
      "this many of every 512 numbers are sent, drawn at random in each step, and the others are "
      "kept for the next step; 0 = all are sent; not with another way to send less");
  allreduce.add("ternary", GV_FIELD(allreduce.compression.ternary),
                "gradients are sent as -1, 0 or 1 for each number, drawn so that the mean is "
                "right, and a scale for every 512; with more than 15 peers they are sent whole; "
                "not with codec or another way to send less");
  const Keys sparse = allreduce.only_with(
      "allreduce.top_k_per_512", "top_k_per_512 above 0",
      [](const Config& c) { return c.allreduce.compression.top_k_per_512 > 0; });
  sparse.add("momentum", GV_FIELD(allreduce.compression.momentum), {0, 0.9999},
             "momentum of gradients before the largest are chosen, as in deep gradient "
             "compression; 0 = none, and values that wait to be sent have no momentum");
  sparse.add("warm_up_steps", GV_FIELD(allreduce.compression.warm_up_steps), {0, 1e12},
             "over this many steps the fraction that is sent falls to that of top_k_per_512");
  allreduce.choice("shares", GV_FIELD(allreduce.shares_by_speed),
                   {{"by_speed", true}, {"equal", false}},
                   "by_speed = a faster peer takes more samples of each step, up to four batches; "
                   "equal = all take train.batch, as a program's own loop does");
  allreduce.add(
      "bucket_elements", GV_FIELD(allreduce.bucket_elements), {1, 1e9},
      "gradients are summed in pieces of this many numbers, while later ones are still computed");
}

/// Adds the keys for the steps that each peer makes alone between two sums.
void append_local_steps(const Keys& allreduce) {
  allreduce.add(
      "period", GV_FIELD(allreduce.local.period), {1, 1e6},
      "steps that each peer makes alone between two sums; 1 = gradients are summed in every step");
  const Keys local =
      allreduce.only_with("allreduce.period", "a period above 1",
                          [](const Config& c) { return c.allreduce.local.period > 1; });
  local.add("local_after", GV_FIELD(allreduce.local.local_after), {0, 1e12},
            "number of steps with a period of 1 at the beginning");
  local.choice("outer", GV_FIELD(allreduce.local.outer),
               {{"average", OuterKind::average}, {"nesterov", OuterKind::nesterov}},
               "what peers do with the mean of their changes: average = apply it, which gives the "
               "mean of the models; nesterov = make a step of Nesterov's method with it");
  const Keys outer =
      local.only_with("allreduce.outer", "outer = \"nesterov\" and a period above 1",
                      [](const Config& c) { return c.allreduce.local.has_momentum(); });
  outer.add("outer_learning_rate", GV_FIELD(allreduce.local.outer_learning_rate),
            {least_positive, 100}, "learning rate of the outer step; 1 goes as far as the mean");
  outer.add("outer_momentum", GV_FIELD(allreduce.local.outer_momentum), {0, 0.9999},
            "momentum of the outer step");
}

}  // namespace

void append_allreduce(Settings& all) {
  const Keys allreduce = Keys{all, "allreduce"}.with("run.mode", {"allreduce"}).agreed();
  append_sums(allreduce);
  append_local_steps(allreduce);
  Keys{all, "allreduce"}
      .with("run.mode", {"allreduce"})
      .add("noise_scale", GV_FIELD(allreduce.noise_scale),
           "status shows the gradient noise scale, the batch of all peers together beyond which a "
           "larger one saves few steps; needs gradients that are sent whole in every step");
}

}  // namespace gv::settings
