// The keys of data, model and training.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "peer/config/setting_sections.hpp"

namespace gv::settings {
namespace {

bool is_generated(const Config& c) { return c.data.kind == DataKind::generated; }
bool is_from_files(const Config& c) { return !is_generated(c); }
bool is_text(const Config& c) { return c.data.kind == DataKind::text; }
bool is_of_numbers(const Config& c) { return !is_text(c); }
bool is_transformer(const Config& c) { return c.model.kind == ModelKind::transformer; }

bool has_momentum(const Config& c) {
  const OptimizerKind kind = c.train.optimizer.kind;
  return kind == OptimizerKind::momentum || kind == OptimizerKind::nesterov ||
         kind == OptimizerKind::lars;
}

bool is_lars(const Config& c) { return c.train.optimizer.kind == OptimizerKind::lars; }

bool is_adam(const Config& c) {
  const OptimizerKind kind = c.train.optimizer.kind;
  return kind == OptimizerKind::adam || kind == OptimizerKind::adamw || kind == OptimizerKind::lamb;
}

bool is_rmsprop(const Config& c) { return c.train.optimizer.kind == OptimizerKind::rmsprop; }

bool is_adaptive(const Config& c) {
  return is_adam(c) || is_rmsprop(c) || is_lars(c) ||
         c.train.optimizer.kind == OptimizerKind::adagrad;
}

bool is_stepped(const Config& c) { return c.train.schedule.kind == ScheduleKind::step; }

}  // namespace

void append_data(Settings& all) {
  const Section<Config> data{"data"};
  constexpr std::string_view from_files = "kind = \"idx\", \"cifar10\", \"csv\" or \"text\"";
  constexpr std::string_view of_numbers = "a kind other than \"text\"";
  all.push_back(agreed(data.choice<>(
      "kind", GV_FIELD(data.kind),
      std::vector<std::pair<std::string, DataKind>>{{"generated", DataKind::generated},
                                                    {"idx", DataKind::idx},
                                                    {"cifar10", DataKind::cifar10},
                                                    {"csv", DataKind::csv},
                                                    {"text", DataKind::text}},
      "the built-in task, or the format of the files")));
  all.push_back(only_with("data.kind", from_files, is_from_files,
                          data.text("folder", GV_FIELD(data.folder),
                                    "where the files are; a relative path starts at this file")));
  all.push_back(only_with("data.kind", from_files, is_from_files,
                          data.texts("train_files", GV_FIELD(data.train_files),
                                     "training files in the folder; idx: images then labels")));
  all.push_back(
      only_with("data.kind", from_files, is_from_files,
                data.texts("test_files", GV_FIELD(data.test_files),
                           "test files in the folder; idx: images then labels; text: without "
                           "any, the last tenth of each training file")));
  all.push_back(only_with(
      "data.kind", "kind = \"csv\"", [](const Config& c) { return c.data.kind == DataKind::csv; },
      data.whole("csv_targets", GV_FIELD(data.csv_targets), {0, 65536},
                 "last columns that are targets; 0 = the last is a label")));
  all.push_back(
      agreed(only_with("data.kind", "kind = \"text\"", is_text,
                       data.whole("context", GV_FIELD(data.context), {1, 65536},
                                  "bytes in a sample: the model sees at most this many"))));
  all.push_back(agreed(
      only_with("data.kind", of_numbers, is_of_numbers,
                data.number("mean", GV_FIELD(data.mean), {-1e9, 1e9},
                            "subtracted from every input; bytes are first divided by 255"))));
  all.push_back(agreed(only_with("data.kind", of_numbers, is_of_numbers,
                                 data.number("deviation", GV_FIELD(data.deviation), {0, 1e9, true},
                                             "what every input is divided by after that"))));
  all.push_back(data.choice<>(
      "partition", GV_FIELD(data.partition.kind),
      std::vector<std::pair<std::string, PartitionKind>>{{"iid", PartitionKind::iid},
                                                         {"dirichlet", PartitionKind::dirichlet},
                                                         {"by_label", PartitionKind::by_label},
                                                         {"shared", PartitionKind::shared}},
      "how the samples are dealt out; shared = everybody has all"));
  all.push_back(only_with(
      "data.partition", "partition = \"dirichlet\"",
      [](const Config& c) { return c.data.partition.kind == PartitionKind::dirichlet; },
      data.number("concentration", GV_FIELD(data.partition.alpha), {0, 1e6, true},
                  "alpha of the Dirichlet draw; small makes unlike shards")));
  all.push_back(only_with(
      "data.partition", "partition = \"by_label\"",
      [](const Config& c) { return c.data.partition.kind == PartitionKind::by_label; },
      data.whole("labels_per_peer", GV_FIELD(data.partition.labels_per_peer), {1, 65536},
                 "how many different labels one peer sees")));
}

void append_generated(Settings& all) {
  const Section<Config> generated{"data.generated"};
  const auto add = [&all](Setting<Config> setting) {
    all.push_back(agreed(
        only_with("data.kind", "data.kind = \"generated\"", is_generated, std::move(setting))));
  };
  add(generated.whole("samples", GV_FIELD(data.generated.samples), {1, 1e8},
                      "training samples in all"));
  add(generated.whole("test_samples", GV_FIELD(data.generated.test_samples), {1, 1e8},
                      "test samples"));
  add(generated.whole("features", GV_FIELD(data.generated.features), {1, 65536},
                      "numbers in one sample"));
  add(generated.whole("classes", GV_FIELD(data.generated.classes), {2, 65536}, "different labels"));
  add(generated.number("noise", GV_FIELD(data.generated.noise), {0, 1000},
                       "spread of a class around its centre; more is harder"));
}

void append_model(Settings& all) {
  const Section<Config> model{"model"};
  all.push_back(agreed(model.choice<>(
      "kind", GV_FIELD(model.kind),
      std::vector<std::pair<std::string, ModelKind>>{{"linear", ModelKind::linear},
                                                     {"mlp", ModelKind::mlp},
                                                     {"lenet", ModelKind::lenet},
                                                     {"cnn", ModelKind::cnn},
                                                     {"transformer", ModelKind::transformer},
                                                     {"layers", ModelKind::layers}},
      "a model known by name, or layers for the list in [[model.layers]]")));
  all.push_back(agreed(only_with(
      "model.kind", "kind = \"mlp\"",
      [](const Config& c) { return c.model.kind == ModelKind::mlp; },
      model.wholes("hidden", GV_FIELD(model.hidden), {1, 1e6},
                   "widths of the hidden layers, first to last"))));
  const auto of_transformer = [&all](Setting<Config> setting) {
    all.push_back(agreed(
        only_with("model.kind", "kind = \"transformer\"", is_transformer, std::move(setting))));
  };
  of_transformer(model.whole("blocks", GV_FIELD(model.transformer.blocks), {1, 1000},
                             "attention and two dense layers each"));
  of_transformer(model.whole("width", GV_FIELD(model.transformer.width), {1, 65536},
                             "numbers that stand for a byte between blocks"));
  of_transformer(model.whole("heads", GV_FIELD(model.transformer.heads), {1, 1024},
                             "attentions side by side in a block; a divisor of the width"));
  of_transformer(model.flag("tied", GV_FIELD(model.transformer.tied),
                            "the output layer uses the embedding's table"));
  all.push_back(agreed(model.choice<>(
      "loss", GV_FIELD(model.loss),
      std::vector<std::pair<std::string, LossKind>>{{"cross_entropy", LossKind::cross_entropy},
                                                    {"squared", LossKind::squared}},
      "what training makes small")));
}

void append_train(Settings& all) {
  const Section<Config> train{"train"};
  all.push_back(train.whole("batch", GV_FIELD(train.batch), {1, 65536},
                            "samples in one step; in a pipeline those of a micro-batch"));
  all.push_back(train.whole("threads", GV_FIELD(train.threads), {1, 64},
                            "threads of a peer that step on its one model at once, without locks; "
                            "more than 1 only with optimizer = \"sgd\" in gossip"));
  all.push_back(train.choice<>(
      "optimizer", GV_FIELD(train.optimizer.kind),
      std::vector<std::pair<std::string, OptimizerKind>>{{"sgd", OptimizerKind::sgd},
                                                         {"momentum", OptimizerKind::momentum},
                                                         {"nesterov", OptimizerKind::nesterov},
                                                         {"adagrad", OptimizerKind::adagrad},
                                                         {"rmsprop", OptimizerKind::rmsprop},
                                                         {"adam", OptimizerKind::adam},
                                                         {"adamw", OptimizerKind::adamw},
                                                         {"lars", OptimizerKind::lars},
                                                         {"lamb", OptimizerKind::lamb}},
      "how gradients become steps; its state stays with the peer"));
  const auto of_optimizer = [&all](std::string_view in_words, bool (*has_effect)(const Config&),
                                   Setting<Config> setting) {
    all.push_back(only_with("train.optimizer", in_words, has_effect, std::move(setting)));
  };
  constexpr settings::Range below_one{0, 0.999999};
  of_optimizer("optimizer = \"momentum\", \"nesterov\" or \"lars\"", has_momentum,
               train.number("momentum", GV_FIELD(train.optimizer.momentum), below_one,
                            "share of the last step's velocity that is kept"));
  of_optimizer("optimizer = \"rmsprop\"", is_rmsprop,
               train.number("decay", GV_FIELD(train.optimizer.decay), below_one,
                            "share of the mean square that is kept"));
  of_optimizer("optimizer = \"adam\", \"adamw\" or \"lamb\"", is_adam,
               train.number("beta1", GV_FIELD(train.optimizer.beta1), below_one,
                            "share of the mean gradient that is kept"));
  of_optimizer("optimizer = \"adam\", \"adamw\" or \"lamb\"", is_adam,
               train.number("beta2", GV_FIELD(train.optimizer.beta2), below_one,
                            "share of the mean square that is kept"));
  of_optimizer("optimizer = \"adagrad\", \"rmsprop\", \"adam\", \"adamw\", \"lars\" or \"lamb\"",
               is_adaptive,
               train.number("epsilon", GV_FIELD(train.optimizer.epsilon), {0, 1, true},
                            "added to the root of the mean square; of lars to a gradient's "
                            "length"));
  of_optimizer("optimizer = \"lars\"", is_lars,
               train.number("trust", GV_FIELD(train.optimizer.trust), {0, 1, true},
                            "a tensor's step over its own length, at a learning rate of 1"));
  all.push_back(
      train.number("weight_decay", GV_FIELD(train.optimizer.weight_decay), {0, 1},
                   "pull of the weights towards zero; decoupled for adamw and lamb only"));
}

void append_schedule(Settings& all) {
  const Section<Config> train{"train"};
  all.push_back(train.number("learning_rate", GV_FIELD(train.schedule.learning_rate),
                             {0, 100, true}, "size of a step, after warm-up"));
  all.push_back(train.choice<>(
      "schedule", GV_FIELD(train.schedule.kind),
      std::vector<std::pair<std::string, ScheduleKind>>{{"constant", ScheduleKind::constant},
                                                        {"step", ScheduleKind::step},
                                                        {"cosine", ScheduleKind::cosine}},
      "how the learning rate changes over the run"));
  all.push_back(train.whole("warmup_steps", GV_FIELD(train.schedule.warmup_steps), {0, 1e9},
                            "steps of a linear ramp up to the learning rate"));
  all.push_back(only_with("train.schedule", "schedule = \"step\"", is_stepped,
                          train.wholes("step_at", GV_FIELD(train.schedule.step_at), {1, 1e12},
                                       "steps at which the rate is multiplied, rising")));
  all.push_back(only_with("train.schedule", "schedule = \"step\"", is_stepped,
                          train.number("step_factor", GV_FIELD(train.schedule.step_factor),
                                       {0, 1, true}, "what it is multiplied by")));
  all.push_back(only_with(
      "train.schedule", "schedule = \"cosine\"",
      [](const Config& c) { return c.train.schedule.kind == ScheduleKind::cosine; },
      train.number("final_fraction", GV_FIELD(train.schedule.final_fraction), {0, 1},
                   "the rate at the last step as a fraction of the highest")));
  all.push_back(
      train.whole("reference_batch", GV_FIELD(train.schedule.reference_batch), {0, 65536},
                  "linear scaling: the batch learning_rate was found for; in lockstep and in a "
                  "pipeline that of all peers together counts; 0 = off"));
}

}  // namespace gv::settings
